"""OffsetDelete: forgets offsets of topics that nobody in the group reads (KIP-496)."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id
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
    slices = Slices(services.clock)
    asked = OffsetDeleteRequest(
        group_id=request.group_id,
        topics=[await _known(services, topic, slices) async for topic in slices.of(request.topics)],
    )
    try:
        check_group_id(request.group_id)
        response = await services.groups.write(
            request.group_id, lambda shard: shard.delete_offsets(asked)
        )
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    async for topic, answer in slices.of(zip(request.topics, response.topics, strict=True)):
        await _add_unknown(topic, answer, slices)
    return response


async def _known(
    services: Services, topic: OffsetDeleteRequestTopic, slices: Slices
) -> OffsetDeleteRequestTopic:
    """With the partitions that exist: the coordinator is left with those."""
    image = services.image.topics.get(topic.name)
    count = 0 if image is None else len(image.partitions)
    return OffsetDeleteRequestTopic(
        name=topic.name,
        partitions=[
            one async for one in slices.of(topic.partitions) if 0 <= one.partition_index < count
        ],
    )


async def _add_unknown(
    topic: OffsetDeleteRequestTopic, answer: OffsetDeleteResponseTopic, slices: Slices
) -> None:
    answered = {one.partition_index for one in answer.partitions}
    answer.partitions += [
        OffsetDeleteResponsePartition(
            partition_index=one.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        async for one in slices.of(topic.partitions)
        if one.partition_index not in answered
    ]
