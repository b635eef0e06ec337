from __future__ import annotations

from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import Member, commit, find_coordinator, loading


async def names(broker: SimulatedBroker, version: int = 5, **filters: Any) -> set[str]:
    response = await broker.call(ListGroupsRequest(**filters), ListGroupsResponse, version)
    assert response.error_code == ErrorCode.NONE
    return {group.group_id for group in response.groups}


@pytest.mark.parametrize("version", ListGroupsRequest.VERSIONS)
def test_all_of_them(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        assert await names(broker, version) == set(), "without a coordinator too"
        await broker.create_topic("t")
        await Member.stable(broker, "members", "t")
        await commit(broker, "offsets", {"t": {0: 1}})
        response = await broker.call(ListGroupsRequest(), ListGroupsResponse, version)
        found = {group.group_id: group for group in response.groups}
        assert set(found) == {"members", "offsets"}
        assert found["members"].protocol_type == "consumer"
        assert found["offsets"].protocol_type == ""
        if version >= 4:
            assert found["members"].group_state == "Stable"
            assert found["offsets"].group_state == "Empty"
        if version >= 5:
            assert {group.group_type for group in response.groups} == {"classic"}

    with_broker(test)


def test_a_group_that_both_commits_and_has_members_is_listed_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})
        await Member.stable(broker, "g", "t")
        response = await broker.call(ListGroupsRequest(), ListGroupsResponse)
        assert [group.group_id for group in response.groups] == ["g"]

    with_broker(test)


def test_filters() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await Member.stable(broker, "members", "t")
        await commit(broker, "offsets", {"t": {0: 1}})
        both = {"members", "offsets"}
        assert await names(broker, states_filter=["stable"]) == {"members"}
        assert await names(broker, states_filter=["EMPTY", "Stable"]) == both
        assert await names(broker, states_filter=["Nonsense"]) == set()
        assert await names(broker, types_filter=["Classic"]) == both
        assert await names(broker, types_filter=["consumer"]) == set()
        only = await names(broker, types_filter=["classic"], states_filter=["Empty"])
        assert only == {"offsets"}

    with_broker(test)


def test_while_one_is_loading_the_list_is_not_whole() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})
        with loading(broker, "g"):
            response = await broker.call(ListGroupsRequest(), ListGroupsResponse)
            assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert response.groups == []

    with_broker(test)
