from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import (
    Member,
    commit,
    describe,
    find_coordinator,
    loading,
)

NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", DescribeGroupsRequest.VERSIONS)
def test_a_group_with_members(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        found = await describe(broker, "g", version)
        assert found.error_code == ErrorCode.NONE
        assert (found.group_state, found.protocol_type) == ("Stable", "consumer")
        assert found.protocol_data == "range"
        assert [one.member_id for one in found.members] == [member.member_id]
        assert found.members[0].member_assignment == member.member_id.encode()
        assert found.authorized_operations == NOT_ASKED

    with_broker(test)


@pytest.mark.parametrize("version", DescribeGroupsRequest.VERSIONS)
def test_a_group_that_is_not_there(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await find_coordinator(broker, "g")
        found = await describe(broker, "g", version)
        assert (found.group_id, found.group_state) == ("g", "Dead")
        is_told = version >= 6
        assert found.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.NONE)
        assert (found.error_message is not None) == is_told

    with_broker(test)


def test_a_group_of_offsets_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})
        found = await describe(broker, "g")
        assert (found.error_code, found.group_state) == (ErrorCode.NONE, "Empty")
        assert (found.protocol_type, found.members) == ("", [])

    with_broker(test)


def test_what_may_be_done_with_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await Member.stable(broker, "g", "t")
        request = DescribeGroupsRequest(groups=["g", "missing"], include_authorized_operations=True)
        known, missing = (await broker.call(request, DescribeGroupsResponse)).groups
        read, delete, describe_, describe_configs, alter_configs = 3, 6, 8, 10, 11
        expected = {read, delete, describe_, describe_configs, alter_configs}
        assert {bit for bit in range(32) if known.authorized_operations >> bit & 1} == expected
        assert missing.authorized_operations == NOT_ASKED

    with_broker(test)


def test_errors_of_the_coordinator_are_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        found = await describe(broker, "g")
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is none yet"
        await Member.stable(broker, "g", "t")
        with loading(broker, "g"):
            found = await describe(broker, "g")
            assert (found.group_id, found.error_code) == (
                "g",
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            )

    with_broker(test)


def test_a_group_that_is_asked_for_many_times_is_described_once() -> None:
    """Else one short id, half a million times, is answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        await find_coordinator(broker, "g")
        request = DescribeGroupsRequest(groups=[*["g"] * 1000, "h", "g"])
        found = (await broker.call(request, DescribeGroupsResponse)).groups
        assert [group.group_id for group in found] == ["g", "h"]

    with_broker(test)
