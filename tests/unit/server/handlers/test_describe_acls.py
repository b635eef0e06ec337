from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker

ANY = 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_is_no_authorizer_to_ask(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = DescribeAclsRequest(
            resource_type_filter=ANY, operation=ANY, permission_type=ANY, pattern_type_filter=ANY
        )
        response = await broker.call(request, DescribeAclsResponse, version)
        assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])
        assert response.error_message

    with_broker(test)
