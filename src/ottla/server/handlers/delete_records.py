"""DeleteRecords: moves the start of a log. Segments that lie wholly before it go in time.

The answer comes when all live replicas have moved theirs, or the time for that is over: then they
do so all the same, when they fetch next.
"""

from __future__ import annotations

import asyncio

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_LOW_WATERMARK = -1


async def handle(
    services: Services, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    slices = Slices(services.clock)
    waiting: dict[asyncio.Future[int], DeleteRecordsPartitionResult] = {}
    try:
        response = DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        _delete(services, topic.name, asked, waiting)
                        async for asked in slices.of(topic.partitions)
                    ],
                )
                async for topic in slices.of(request.topics)
            ]
        )
        if waiting:
            await asyncio.wait(waiting, timeout=max(0, request.timeout_ms) / 1000)
        async for replicated, answer in slices.of(list(waiting.items())):
            _settle(answer, replicated)
        return response
    finally:  # Also where its client is gone.
        for replicated in waiting:
            replicated.cancel()


def _delete(
    services: Services,
    topic: str,
    asked: DeleteRecordsPartition,
    waiting: dict[asyncio.Future[int], DeleteRecordsPartitionResult],
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index)
    try:
        partition = services.replicas.partition(topic, asked.partition_index)
        start_offset = partition.delete_records(asked.offset)
        delayed = partition.leader.delayed_deletes
        answer.low_watermark = delayed.low_watermark()
        offset = start_offset if asked.offset < 0 else asked.offset
        if answer.low_watermark < offset:
            waiting[delayed.until(offset)] = answer
    except KafkaError as error:
        _refuse(answer, error.code)
    return answer


def _settle(answer: DeleteRecordsPartitionResult, replicated: asyncio.Future[int]) -> None:
    if not replicated.done():
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return
    try:
        answer.low_watermark = replicated.result()
    except KafkaError as error:
        _refuse(answer, error.code)


def _refuse(answer: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
    answer.low_watermark = NO_LOW_WATERMARK
    answer.error_code = code
