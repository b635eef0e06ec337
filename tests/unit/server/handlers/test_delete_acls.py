from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker

ANY = 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_filter_is_refused_without_an_authorizer(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        one = DeleteAclsFilter(resource_type_filter=ANY, operation=ANY, permission_type=ANY)
        request = DeleteAclsRequest(filters=[one, one])
        response = await broker.call(request, DeleteAclsResponse, version)
        codes = [result.error_code for result in response.filter_results]
        assert codes == [ErrorCode.SECURITY_DISABLED] * 2
        assert [result.matching_acls for result in response.filter_results] == [[], []]

    with_broker(test)
