from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker

NO_OPERATIONS = -(2**31)


@pytest.mark.parametrize("version", [0, 1])
def test_members_and_what_they_have(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await broker.call(find, FindCoordinatorResponse, 4)
        join = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m1",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        await broker.call(join, ConsumerGroupHeartbeatResponse)
        request = ConsumerGroupDescribeRequest(
            group_ids=["g", "missing"], include_authorized_operations=True
        )
        response = await broker.call(request, ConsumerGroupDescribeResponse, version)
        group, missing = response.groups
        assert (group.group_state, group.assignor_name) == ("Stable", "uniform")
        (member,) = group.members
        assert member.member_id == "m1"
        assert member.assignment.topic_partitions[0].topic_name == "t"
        assert member.assignment.topic_partitions[0].partitions == [0, 1]
        assert group.authorized_operations != NO_OPERATIONS
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert missing.authorized_operations == NO_OPERATIONS

    with_broker(test)


def test_a_group_that_is_asked_for_many_times_is_described_once() -> None:
    """Else one short id, half a million times, is answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        request = ConsumerGroupDescribeRequest(group_ids=[*["g"] * 1000, "h", "g"])
        found = (await broker.call(request, ConsumerGroupDescribeResponse)).groups
        assert [group.group_id for group in found] == ["g", "h"]

    with_broker(test)
