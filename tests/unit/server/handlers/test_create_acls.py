from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_is_refused_without_an_authorizer(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        creations = [
            AclCreation(
                resource_type=2,
                resource_name=name,
                principal="User:a",
                host="*",
                operation=3,
                permission_type=3,
            )
            for name in ("t", "u")
        ]
        request = CreateAclsRequest(creations=creations)
        response = await broker.call(request, CreateAclsResponse, version)
        codes = [result.error_code for result in response.results]
        assert codes == [ErrorCode.SECURITY_DISABLED] * 2
        assert all(result.error_message for result in response.results)

    with_broker(test)
