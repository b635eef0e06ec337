"""The records of a consumer group: many small ones, so that a change writes little."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.member import Assignment, ConsumerMember
from ottla.coordinators.groups.consumer.subscription import ResolvedRegex
from ottla.coordinators.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from ottla.coordinators.record import CoordinatorRecord


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_record(
    group_id: str, member: ConsumerMember, sorted_names: list[str] | None = None
) -> CoordinatorRecord:
    """With the names of its topics, where they are sorted already: there may be many."""
    names = sorted(member.subscribed_topic_names) if sorted_names is None else sorted_names
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        member.metadata_value(names),
    )


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=now_ms
        ),
    )


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in target.items()
            ]
        ),
    )


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        member.current_assignment_value(),
    )


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.timestamp_ms,
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """In this order: Kafka does not take away a member that still has an assignment."""
    return [
        CoordinatorRecord(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
        ),
        CoordinatorRecord(
            ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
        ),
        CoordinatorRecord(
            ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
        ),
    ]


def replacing_records(
    group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember
) -> list[CoordinatorRecord]:
    """The new one, whose id differs or not, has all that the old one had."""
    return [
        *member_tombstones(group.group_id, old.member_id),
        member_record(group.group_id, new),
        target_record(group.group_id, new.member_id, group.target_of(old)),
        current_record(group.group_id, new),
    ]


def group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """The whole group anew."""
    group_id = group.group_id
    members = group.members.values()
    return [
        *(member_record(group_id, member) for member in members),
        group_epoch_record(group_id, group.group_epoch, group.metadata_hash),
        *(target_record(group_id, member.member_id, group.target_of(member)) for member in members),
        target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current_record(group_id, member) for member in members),
    ]


def group_tombstones(
    group: ConsumerGroup, member_ids: Iterable[str] | None = None
) -> list[CoordinatorRecord]:
    """The whole group, with these members if others are in the log than in memory."""
    group_id = group.group_id
    records: list[CoordinatorRecord] = []
    for member_id in group.members if member_ids is None else member_ids:
        records += member_tombstones(group_id, member_id)
    records.append(
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    )
    records += (regex_tombstone(group_id, regex) for regex in group.regexes)
    if group.has_partition_metadata_record:
        records.append(partition_metadata_tombstone(group_id))
    records.append(CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None))
    return records
