"""OffsetCommit: how far a group has read.

v2 to v4 carry a retention of their own, v6 leader epochs, v7 static members, v8 flexible fields, v9
serves the consumer protocol (KIP-848), v10 names topics by id.
"""

from __future__ import annotations

from ottla.coordinators.groups.offset_commits import error_for_all
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.group_requests import client_of
from ottla.server.services import Services
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10


async def handle(
    services: Services, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse:
    client = client_of(context)
    slices = Slices(services.clock)
    asked = request.topics
    refused = await _take_out_unknown(services, request, context.api_version, slices)
    try:
        response = await services.groups.write(
            request.group_id, lambda shard: shard.commit_offsets(request, client)
        )
    except KafkaError as error:
        response = await error_for_all(request, error.code, slices)
    return await _in_order(asked, response, refused, slices)


async def _take_out_unknown(
    services: Services, request: OffsetCommitRequest, version: int, slices: Slices
) -> dict[tuple[str, TopicId, int], int]:
    """Partitions that do not exist are answered without the coordinator, which is left with the
    others."""
    refused: dict[tuple[str, TopicId, int], int] = {}
    known: list[OffsetCommitRequestTopic] = []
    async for topic in slices.of(request.topics):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= TOPIC_IDS_SINCE:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            image = services.image.topics_by_id.get(topic.topic_id)
            topic.name = "" if image is None else image.name
        else:
            image = services.image.topics.get(topic.name)
            # Kept with the offset: a topic of this name later is another one.
            topic.topic_id = NO_TOPIC_ID if image is None else image.id
        count = 0 if image is None else len(image.partitions)
        if count:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        kept = []
        async for one in slices.of(topic.partitions):
            if 0 <= one.partition_index < count:
                kept.append(one)
            else:
                refused[topic.name, topic.topic_id, one.partition_index] = code
        if kept:
            known.append(
                OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=kept)
            )
    request.topics = known
    return refused


async def _in_order(
    asked: list[OffsetCommitRequestTopic],
    response: OffsetCommitResponse,
    refused: dict[tuple[str, TopicId, int], int],
    slices: Slices,
) -> OffsetCommitResponse:
    if not refused:
        return response
    codes = {
        (topic.name, topic.topic_id, one.partition_index): one.error_code
        async for topic in slices.of(response.topics)
        async for one in slices.of(topic.partitions)
    }
    async for at, code in slices.of(refused.items()):
        codes[at] = code
    await slices.empty(refused)
    answer = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=codes[topic.name, topic.topic_id, one.partition_index],
                    )
                    async for one in slices.of(topic.partitions)
                ],
            )
            async for topic in slices.of(asked)
        ]
    )
    await slices.empty(codes)
    return answer
