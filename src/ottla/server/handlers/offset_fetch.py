"""OffsetFetch: how far a group has read, as it committed.

v2 asks for all topics with null, v5 brought leader epochs, v6 flexible fields, v7 may ask for
stable offsets only (KIP-447: UNSTABLE_OFFSET_COMMIT where an open transaction may change them), v8
takes several groups at once, v9 fences members of the consumer protocol, v10 names topics by id.
"""

from __future__ import annotations

from ottla.coordinators.groups.committed_offset import NO_EPOCH, NO_OFFSET, CommittedOffset
from ottla.coordinators.groups.group_shard import GroupShard
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.server.context import RequestContext
from ottla.server.distinct import distinct
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


async def handle(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    version = context.api_version
    if version >= GROUPS_SINCE:
        return OffsetFetchResponse(
            groups=[
                await _fetch(services, group, version, request.require_stable)
                for group in distinct(request.groups, lambda group: group.group_id)
            ]
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    fetched = await _fetch(services, group, version, request.require_stable)
    return _as_single(fetched, group, version)


async def _fetch(
    services: Services, asked: OffsetFetchRequestGroup, version: int, require_stable: bool
) -> OffsetFetchResponseGroup:
    response = OffsetFetchResponseGroup(group_id=asked.group_id)
    group_id = asked.group_id

    def read(shard: GroupShard) -> None:
        shard.check_fetch(group_id, asked.member_id, asked.member_epoch)
        if asked.topics is None:
            response.topics = _all(services, shard, group_id)
        else:
            response.topics = [
                _topic(services, shard, group_id, topic, version)
                for topic in distinct(asked.topics, lambda topic: (topic.name, topic.topic_id))
            ]
        if require_stable:
            _hide_unstable(shard, group_id, response.topics)

    try:
        await services.groups.read(group_id, read)
    except KafkaError as error:
        response.error_code = error.code
    return response


def _all(services: Services, shard: GroupShard, group_id: str) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name,
            topic_id=_id_of(services, name),
            partitions=[_partition(index, found) for index, found in partitions.items()],
        )
        for name, partitions in shard.offsets.topics(group_id).items()
    ]


def _id_of(services: Services, name: str) -> TopicId:
    image = services.image.topics.get(name)
    return NO_TOPIC_ID if image is None else image.id


def _topic(
    services: Services,
    shard: GroupShard,
    group_id: str,
    topic: OffsetFetchRequestTopics,
    version: int,
) -> OffsetFetchResponseTopics:
    name = topic.name
    topic_id = topic.topic_id
    if version < TOPIC_IDS_SINCE:
        topic_id = _id_of(services, name)
    else:
        image = services.image.topics_by_id.get(topic.topic_id)
        if image is None:
            return OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                partitions=[
                    _partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID)
                    for index in dict.fromkeys(topic.partition_indexes)
                ],
            )
        name = image.name
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            _partition(index, shard.offsets.get(group_id, name, index, topic_id))
            for index in dict.fromkeys(topic.partition_indexes)
        ],
    )


def _hide_unstable(
    shard: GroupShard, group_id: str, topics: list[OffsetFetchResponseTopics]
) -> None:
    for topic in topics:
        topic.partitions = [
            one
            if shard.offsets.is_stable(group_id, topic.name, one.partition_index)
            else _partition(one.partition_index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            for one in topic.partitions
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


def _as_single(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
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
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics or []
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
                    for one in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
