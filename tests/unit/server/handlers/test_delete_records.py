from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.simulated_broker import SimulatedBroker, with_broker


async def delete(
    broker: SimulatedBroker, offset: int, *, topic: str = "t", partition: int = 0, version: int = 2
) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])])
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
