from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.replication.partition import Partition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.led_partition import append, fetched, lead_two_replicas, new_partition
from tests.support.simulated_broker import SimulatedBroker, with_broker


async def delete(
    broker: SimulatedBroker,
    offset: int,
    *,
    topic: str = "t",
    partition: int = 0,
    version: int = 2,
    timeout_ms: int = 0,
) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        timeout_ms=timeout_ms, topics=[DeleteRecordsTopic(name=topic, partitions=[asked])]
    )
    response = await broker.call(request, DeleteRecordsResponse, version)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_before_the_offset_cannot_be_read_any_more(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        for _ in range(3):
            await broker.produce("t", b"v")
        result = await delete(broker, 2, version=version)
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
        for offset, code in ((1, ErrorCode.OFFSET_OUT_OF_RANGE), (2, ErrorCode.NONE)):
            asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
            request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[asked])])
            response = await broker.call(request, FetchResponse, 12)
            data = response.responses[0].partitions[0]
            assert data.error_code == code
            assert data.log_start_offset == (2 if code is ErrorCode.NONE else -1)

    with_broker(test)


def test_minus_one_stands_for_all_and_deleting_again_changes_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"a", b"b")
        assert (await delete(broker, -1)).low_watermark == 2
        result = await delete(broker, 1)
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)

    with_broker(test)


def test_what_was_deleted_stays_so_over_a_restart() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"a", b"b")
        await delete(broker, 1)
        await broker.restart()
        assert (await delete(broker, 0)).low_watermark == 1

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "code"),
    [
        ("t", 0, 3, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, 0, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_errors_are_told_by_partition(
    topic: str, partition: int, offset: int, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.create_topic("compacted", cleanup_policy="compact")
        await broker.produce("t", b"a", b"b")
        result = await delete(broker, offset, topic=topic, partition=partition)
        assert (result.error_code, result.low_watermark) == (code, -1)

    with_broker(test)


async def replicated(broker: SimulatedBroker) -> Partition:
    """Three records, of which broker 2 has all."""
    partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
    append(partition, b"a", b"b", b"c")
    fetched(partition, 3)
    return partition


@pytest.mark.parametrize("offset", [2, -1])
def test_the_answer_waits_until_the_followers_have_deleted_too(offset: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await replicated(broker)
        deleted = asyncio.create_task(delete(broker, offset, timeout_ms=60_000))
        await asyncio.sleep(5)
        assert partition.log.log_start_offset == (3 if offset < 0 else 2)
        fetched(partition, 3, log_start_offset=1)
        await asyncio.sleep(5)
        assert not deleted.done()
        fetched(partition, 3, log_start_offset=3)
        result = await deleted
        assert (result.error_code, result.low_watermark) == (
            ErrorCode.NONE,
            partition.log.log_start_offset,
        )

    with_broker(test)


@pytest.mark.parametrize("timeout_ms", [1000, 0, -1])
def test_a_follower_that_takes_too_long_is_an_error(timeout_ms: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await replicated(broker)
        result = await delete(broker, 2, timeout_ms=timeout_ms)
        assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert partition.log.log_start_offset == 2, "it is deleted here, and there in time"
        await asyncio.sleep(0)
        assert len(partition.leader.delayed_deletes) == 0

    with_broker(test)


def test_a_follower_that_is_gone_is_not_waited_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await replicated(broker)
        deleted = asyncio.create_task(delete(broker, 2, timeout_ms=60_000))
        await asyncio.sleep(5)
        partition.leader.in_sync._broker_epochs = {BrokerId(1): 5}.get
        partition.leader.judge_isr(since_s=0)
        assert (await deleted).low_watermark == 2

    with_broker(test)


def test_a_lost_leadership_ends_the_wait() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await replicated(broker)
        deleted = asyncio.create_task(delete(broker, 2, timeout_ms=60_000))
        await asyncio.sleep(5)
        await partition.end_role()
        result = await deleted
        assert (result.error_code, result.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    with_broker(test)
