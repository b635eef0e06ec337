"""OffsetFetch: how far a group has read, as it committed.

v2 asks for all topics with null, v5 brought leader epochs, v6 flexible fields, v7 may ask for
stable offsets only (KIP-447: UNSTABLE_OFFSET_COMMIT where an open transaction may change them), v8
takes several groups at once, v9 fences members of the consumer protocol, v10 names topics by id.
"""

from __future__ import annotations

import asyncio

from ottla.coordinators.groups.committed_offset import NO_EPOCH, NO_OFFSET, CommittedOffset
from ottla.coordinators.groups.group_shard import GroupShard
from ottla.coordinators.groups.offsets import OffsetsSeen
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
ERROR_OF_THE_WHOLE_SINCE = 2

GROUPS_AT_ONCE = 100


async def handle(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    version = context.api_version
    slices = Slices(services.clock)
    if version >= GROUPS_SINCE:
        asked = await slices.distinct(request.groups, lambda group: group.group_id)
        if request.require_stable and len(asked) > 1:
            return OffsetFetchResponse(groups=await _fetch_together(services, asked, version))
        return OffsetFetchResponse(
            groups=[
                await _fetch(services, group, version, request.require_stable, slices)
                async for group in slices.of(asked)
            ]
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            async for topic in slices.of(request.topics)
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    fetched = await _fetch(services, group, version, request.require_stable, slices)
    return await _as_single(fetched, group, version, slices)


async def _fetch_together(
    services: Services, asked: list[OffsetFetchRequestGroup], version: int
) -> list[OffsetFetchResponseGroup]:
    """Stable ones of many groups. Each waits for followers: not one after another."""
    found: list[OffsetFetchResponseGroup] = []
    for first in range(0, len(asked), GROUPS_AT_ONCE):
        fetching = [
            _fetch(services, group, version, True, Slices(services.clock))
            for group in asked[first : first + GROUPS_AT_ONCE]
        ]
        found += await asyncio.gather(*fetching)
    return found


async def _fetch(
    services: Services,
    asked: OffsetFetchRequestGroup,
    version: int,
    require_stable: bool,
    slices: Slices,
) -> OffsetFetchResponseGroup:
    response = OffsetFetchResponseGroup(group_id=asked.group_id)
    group_id = asked.group_id
    topics = asked.topics
    if topics is not None:
        topics = await slices.distinct(topics, lambda topic: (topic.name, topic.topic_id))
        if version >= TOPIC_IDS_SINCE:
            async for topic in slices.of(topics):
                image = services.image.topics_by_id.get(topic.topic_id)
                topic.name = "" if image is None else image.name

    wanted = None
    if topics is not None:
        wanted = [(topic.name, topic.partition_indexes) async for topic in slices.of(topics)]

    def read(shard: GroupShard) -> OffsetsSeen:
        shard.check_fetch(group_id, asked.member_id, asked.member_epoch)
        return shard.offsets.seen(group_id, wanted)

    try:
        # Who commits in transactions goes on from these offsets: older ones would repeat records.
        ask = services.groups.read_as_leader if require_stable else services.groups.read
        seen = await ask(group_id, read)
    except KafkaError as error:
        response.error_code = error.code
        return response
    if topics is None:
        response.topics = await _all(services, seen, slices)
    else:
        response.topics = [
            await _topic(services, seen, topic, version, slices)
            async for topic in slices.of(topics)
        ]
    if require_stable and seen.unstable:
        await _hide_unstable(seen, response.topics, slices)
    return response


async def _all(
    services: Services, seen: OffsetsSeen, slices: Slices
) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name,
            topic_id=_id_of(services, name),
            partitions=[
                _partition(index, found)
                async for index, found in slices.of(list(partitions.items()))
            ],
        )
        for name, partitions in seen.topics.items()
    ]


def _id_of(services: Services, name: str) -> TopicId:
    image = services.image.topics.get(name)
    return NO_TOPIC_ID if image is None else image.id


async def _topic(
    services: Services,
    seen: OffsetsSeen,
    topic: OffsetFetchRequestTopics,
    version: int,
    slices: Slices,
) -> OffsetFetchResponseTopics:
    indexes = await slices.distinct(topic.partition_indexes)
    if version < TOPIC_IDS_SINCE:
        topic_id = _id_of(services, topic.name)
    else:
        topic_id = topic.topic_id
        if not topic.name:
            return OffsetFetchResponseTopics(
                topic_id=topic_id,
                partitions=[
                    _partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID)
                    async for index in slices.of(indexes)
                ],
            )
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic_id,
        partitions=[
            _partition(index, seen.get(topic.name, index, topic_id))
            async for index in slices.of(indexes)
        ],
    )


async def _hide_unstable(
    seen: OffsetsSeen, topics: list[OffsetFetchResponseTopics], slices: Slices
) -> None:
    async for topic in slices.of(topics):
        topic.partitions = [
            one
            if seen.is_stable(topic.name, one.partition_index)
            else _partition(one.partition_index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            async for one in slices.of(topic.partitions)
        ]


def _partition(
    index: int, found: CommittedOffset | None, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET if found is None else found.offset,
        committed_leader_epoch=NO_EPOCH if found is None else found.leader_epoch,
        metadata="" if found is None else found.metadata,
        error_code=code,
    )


async def _as_single(
    group: OffsetFetchResponseGroup,
    asked: OffsetFetchRequestGroup,
    version: int,
    slices: Slices,
) -> OffsetFetchResponse:
    """The form of before v8. Before v2 there was no place for an error of the whole but in
    every partition."""
    topics = group.topics
    if group.error_code and version < ERROR_OF_THE_WHOLE_SINCE:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    _partition(index, None, ErrorCode(group.error_code))
                    async for index in slices.of(topic.partition_indexes)
                ],
            )
            async for topic in slices.of(asked.topics or [])
        ]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    async for one in slices.of(topic.partitions)
                ],
            )
            async for topic in slices.of(topics)
        ],
    )
