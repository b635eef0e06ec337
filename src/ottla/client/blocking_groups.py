"""How far groups have read: to ask and to say it, without being a member."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.client.blocking_cluster import GROUP_COORDINATOR, BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.wire.api import ApiKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_NAMES_UP_TO = 9
"""The last version of both APIs in which topics are named."""
_MANY_GROUPS_SINCE = 8


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def committed_offsets(
    cluster: BlockingCluster,
    group_id: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    is_stable: bool = True,
) -> dict[TopicPartition, CommittedOffset]:
    """Of these partitions, or of all for which the group has one. `is_stable` waits for
    transactions that are about to change them (KIP-447). That holds for partitions that are named:
    where all are asked for, Apache Kafka leaves out one whose first offset is being committed."""
    return cluster.retrying(
        f"asking for the offsets of group {group_id}",
        lambda: _fetch(cluster, group_id, partitions, is_stable),
    )


def commit_offsets(
    cluster: BlockingCluster,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_s: float | None = None,
) -> None:
    """For a group without members; with some it is UNKNOWN_MEMBER_ID."""
    if offsets:
        cluster.retrying(
            f"committing offsets of group {group_id}",
            lambda: _commit(cluster, group_id, offsets),
            timeout_s=timeout_s,
        )


def _fetch(
    cluster: BlockingCluster,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    is_stable: bool,
) -> dict[TopicPartition, CommittedOffset]:
    node = cluster.coordinator(GROUP_COORDINATOR, group_id)
    is_batched = _MANY_GROUPS_SINCE in cluster.versions(node).get(ApiKey.OFFSET_FETCH, range(0))
    wanted = _by_topic(partitions)
    request = OffsetFetchRequest(require_stable=is_stable)
    if is_batched:
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        if wanted is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                for name, numbers in wanted.items()
            ]
        request.groups = [group]
    else:
        request.group_id, request.topics = group_id, None
        if wanted is not None:
            request.topics = [
                OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
                for name, numbers in wanted.items()
            ]
    response = cluster.ask(request, OffsetFetchResponse, node=node, version_max=_NAMES_UP_TO)
    answer = response.groups[0] if is_batched else response
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), f"offsets of group {group_id}")
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            key = TopicPartition(topic.name, one.partition_index)
            if one.error_code:
                raise KafkaError(ErrorCode(one.error_code), f"offset of {key}, group {group_id}")
            if one.committed_offset >= 0:
                found[key] = CommittedOffset(
                    one.committed_offset, one.metadata or "", one.committed_leader_epoch
                )
    return found


def _by_topic(partitions: Collection[TopicPartition] | None) -> dict[str, list[int]] | None:
    if partitions is None:
        return None
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def _commit(
    cluster: BlockingCluster, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), committed in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    node = cluster.coordinator(GROUP_COORDINATOR, group_id)
    response = cluster.ask(request, OffsetCommitResponse, node=node, version_max=_NAMES_UP_TO)
    for answer in response.topics:
        for one in answer.partitions:
            if one.error_code:
                key = TopicPartition(answer.name, one.partition_index)
                raise KafkaError(
                    ErrorCode(one.error_code), f"committing {key} for group {group_id}"
                )
