"""OffsetDelete: forgets offsets of topics that nobody in the group reads (KIP-496)."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    services: Services, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse:
    unknown: list[OffsetDeleteResponseTopic] = []
    known: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        image = services.image.topics.get(topic.name)
        count = 0 if image is None else len(image.partitions)
        kept = [one for one in topic.partitions if 0 <= one.partition_index < count]
        if kept:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=kept))
        missing = [
            OffsetDeleteResponsePartition(
                partition_index=one.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for one in topic.partitions
            if not 0 <= one.partition_index < count
        ]
        if missing:
            unknown.append(OffsetDeleteResponseTopic(name=topic.name, partitions=missing))
    asked = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    try:
        response = await services.groups.write(
            request.group_id, lambda shard: shard.delete_offsets(asked)
        )
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    response.topics += unknown
    return response
