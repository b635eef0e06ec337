from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker


async def find_coordinator(broker: SimulatedBroker) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    response = await broker.call(request, FindCoordinatorResponse, 4)
    assert response.coordinators[0].error_code == ErrorCode.NONE


def joining(member_id: str = "m1", **changes: object) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def test_a_member_joins_and_is_given_partitions() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 3)
        await find_coordinator(broker)
        joined = await broker.call(joining(), ConsumerGroupHeartbeatResponse)
        assert joined.error_code == ErrorCode.NONE
        assert joined.member_id == "m1"
        assert joined.member_epoch > 0
        assert joined.assignment is not None
        assert joined.assignment.topic_partitions == [
            TopicPartitions(topic_id=topic_id, partitions=[0, 1, 2])
        ]

    with_broker(test)


def test_what_is_refused_is_said_in_words() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker)
        for request, code in (
            (joining(group_id=""), ErrorCode.INVALID_REQUEST),
            (joining(member_epoch=5), ErrorCode.GROUP_ID_NOT_FOUND),
            (joining(server_assignor="mine"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        ):
            response = await broker.call(request, ConsumerGroupHeartbeatResponse)
            assert response.error_code == code
            assert response.error_message

    with_broker(test)


def test_a_new_topic_that_matches_the_expression_is_assigned() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await find_coordinator(broker)
        by_regex = joining(subscribed_topic_names=[], subscribed_topic_regex="ev.*")
        joined = await broker.call(by_regex, ConsumerGroupHeartbeatResponse)
        topic_id = await broker.create_topic("events", 2)
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m1", member_epoch=joined.member_epoch, topic_partitions=[]
        )
        heard = await broker.call(beat, ConsumerGroupHeartbeatResponse)
        assert heard.assignment is not None
        assert heard.assignment.topic_partitions == [
            TopicPartitions(topic_id=topic_id, partitions=[0, 1])
        ]

    with_broker(test, group_consumer_assignment_interval_ms="0")
