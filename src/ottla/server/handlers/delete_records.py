"""DeleteRecords: moves the start of a log. Segments that lie wholly before it go in time."""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(
    services: Services, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(services, topic.name, asked) for asked in topic.partitions],
            )
            for topic in request.topics
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
