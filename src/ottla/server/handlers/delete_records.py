"""DeleteRecords: moves the start of a log. Segments that lie wholly before it go in time."""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
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


async def handle(
    services: Services, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    slices = Slices(services.clock)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(services, topic.name, asked)
                    async for asked in slices.of(topic.partitions)
                ],
            )
            async for topic in slices.of(request.topics)
        ]
    )


def _delete(
    services: Services, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index)
    try:
        partition = services.replicas.partition(topic, asked.partition_index)
        answer.low_watermark = partition.delete_records(asked.offset)
    except KafkaError as error:
        answer.low_watermark = -1
        answer.error_code = error.code
    return answer
