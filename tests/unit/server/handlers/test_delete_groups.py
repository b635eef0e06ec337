from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import (
    Member,
    commit,
    committed,
    delete,
    describe,
    find_coordinator,
    loading,
)


@pytest.mark.parametrize("version", DeleteGroupsRequest.VERSIONS)
def test_each_group_has_its_code(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await Member.stable(broker, "members", "t")
        await commit(broker, "offsets", {"t": {0: 1}})
        names = ["members", "offsets", "missing", "offsets"]
        request = DeleteGroupsRequest(groups_names=names)
        results = (await broker.call(request, DeleteGroupsResponse, version)).results
        assert {one.group_id: ErrorCode(one.error_code).name for one in results} == {
            "members": "NON_EMPTY_GROUP",
            "offsets": "NONE",
            "missing": "GROUP_ID_NOT_FOUND",
        }
        assert len(results) == 3, "who is named twice is answered once"

    with_broker(test)


def test_a_deleted_group_is_gone_with_its_offsets() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.stable(broker, "g", "t")
        await commit(
            broker,
            "g",
            {"t": {0: 1}},
            member_id=member.member_id,
            generation_id_or_member_epoch=1,
        )
        await member.leave()
        assert await delete(broker, "g") == [ErrorCode.NONE]
        for _ in range(2):
            assert await committed(broker, "g") == {}
            assert (await describe(broker, "g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert await delete(broker, "g") == [ErrorCode.GROUP_ID_NOT_FOUND]
            await broker.restart()
            await find_coordinator(broker, "g")

    with_broker(test)


def test_errors_of_the_coordinator_are_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        assert await delete(broker, "g") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        await Member.stable(broker, "g", "t")
        with loading(broker, "g"):
            assert await delete(broker, "g") == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    with_broker(test)
