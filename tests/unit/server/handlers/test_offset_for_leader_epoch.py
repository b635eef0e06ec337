from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.simulated_broker import OTHER_LISTENER, SimulatedBroker, with_broker


async def find(
    broker: SimulatedBroker,
    epoch: int,
    *,
    current_leader_epoch: int = -1,
    topic: str = "t",
    partition: int = 0,
    version: int = 4,
    replica_id: int = -1,
) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    )
    response = await broker.call(request, OffsetForLeaderEpochResponse, version)
    assert response.topics[0].topic == topic
    (found,) = response.topics[0].partitions
    assert found.partition == partition
    return found


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_epoch_of_now_ends_where_the_log_does(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"a", b"b")
        for current_leader_epoch in (-1, 0):
            found = await find(
                broker, 0, current_leader_epoch=current_leader_epoch, version=version
            )
            assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 2)

    with_broker(test)


def test_an_epoch_that_never_was_has_no_end() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"a")
        found = await find(broker, 5)
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, -1, -1)

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "partition", "current_leader_epoch", "code"),
    [
        ("missing", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_errors_are_told_by_partition(
    topic: str, partition: int, current_leader_epoch: int, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        found = await find(
            broker,
            0,
            topic=topic,
            partition=partition,
            current_leader_epoch=current_leader_epoch,
        )
        assert (found.error_code, found.leader_epoch, found.end_offset) == (code, -1, -1)

    with_broker(test)


def test_a_replica_asks_on_the_listener_of_brokers_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        found = await find(broker, 0, replica_id=2)
        assert (found.error_code, found.end_offset) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
        assert (await find(broker, 0)).error_code == ErrorCode.NONE

    with_broker(test, **OTHER_LISTENER)
