from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.testing.loop import EPOCH_MS
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from tests.support import partition_transactions as transactions
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker

# Producers that have been silent for a day are forgotten at a restart.
NOW_MS = EPOCH_MS


async def describe(
    broker: SimulatedBroker, topic: str = "t", *partitions: int
) -> list[PartitionResponse]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(partitions or (0,)))]
    )
    return (await broker.call(request, DescribeProducersResponse)).topics[0].partitions


def test_idempotent_producers_are_known_by_their_last_batch() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"from nobody")
        for producer_id, epoch, timestamp in ((7, 0, NOW_MS), (8, 3, NOW_MS + 1)):
            batch = make_batch(
                b"a",
                b"b",
                timestamp=timestamp,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
            )
            await broker.produce_batch("t", batch)
        for _ in range(2):
            (partition,) = await describe(broker)
            told = [
                (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp)
                for one in partition.active_producers
            ]
            assert told == [(7, 0, 1, NOW_MS), (8, 3, 1, NOW_MS + 1)]
            assert {one.current_txn_start_offset for one in partition.active_producers} == {-1}
            await broker.restart()

    with_broker(test)


def test_errors_are_told_by_partition() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        known, unknown = await describe(broker, "t", 0, 1)
        assert (known.error_code, known.active_producers) == (ErrorCode.NONE, [])
        (missing,) = await describe(broker, "missing")
        for answer in (unknown, missing):
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert answer.error_message

    with_broker(test)


def test_an_open_transaction_is_told_with_its_start() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        partition = broker.machine.broker.replicas.partition("t", 0)
        await transactions.end(partition, 7, is_commit=True, epoch=2, coordinator_epoch=5)
        await transactions.write(partition, 7, b"a", b"b", epoch=2)
        for _ in range(2):
            ((producer,),) = [each.active_producers for each in await describe(broker)]
            assert (producer.producer_id, producer.producer_epoch) == (7, 2)
            assert (producer.last_sequence, producer.last_timestamp) == (1, NOW_MS)
            assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (5, 1)
            await broker.restart(broker.machine.kill)
        partition = broker.machine.broker.replicas.partition("t", 0)
        await transactions.end(partition, 7, is_commit=True, epoch=3, coordinator_epoch=6)
        ((producer,),) = [each.active_producers for each in await describe(broker)]
        assert (producer.producer_epoch, producer.last_sequence) == (3, -1)
        assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (6, -1)

    with_broker(test)


def test_a_partition_that_is_asked_for_many_times_is_described_once() -> None:
    """Else one partition, half a million times, is answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        asked = TopicRequest(name="t", partition_indexes=[1, 1, 0, 1])
        request = DescribeProducersRequest(topics=[asked] * 1000)
        found = (await broker.call(request, DescribeProducersResponse)).topics
        assert [(one.name, [p.partition_index for p in one.partitions]) for one in found] == [
            ("t", [1, 0])
        ]

    with_broker(test)
