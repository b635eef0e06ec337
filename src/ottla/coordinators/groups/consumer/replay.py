"""Records of consumer groups become state, when they are loaded and when they were written.

In a compacted log they may come in an order in which nobody wrote them: a member's assignment
before the member, the target assignment before the group.
"""

from __future__ import annotations

from ottla.coordinators.groups.consumer.group import INITIAL_EPOCH, ConsumerGroup
from ottla.coordinators.groups.consumer.member import ConsumerMember
from ottla.coordinators.groups.consumer.subscription import ResolvedRegex
from ottla.coordinators.groups.context import GroupContext
from ottla.coordinators.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.coordinators.record import CoordinatorRecord


class ConsumerReplay:
    """Owned by the ConsumerProtocol of a shard."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    def replay(self, record: CoordinatorRecord) -> bool:
        """False if it is no record of a consumer group."""
        match record.key, record.value:
            case ConsumerGroupMetadataKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupMetadataValue)
                self.replay_metadata(key, value)
            case ConsumerGroupPartitionMetadataKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupPartitionMetadataValue)
                self.replay_partition_metadata(key, value)
            case ConsumerGroupMemberMetadataKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
                self.replay_member(key, value)
            case ConsumerGroupTargetAssignmentMetadataKey() as key, value:
                assert value is None or isinstance(
                    value, ConsumerGroupTargetAssignmentMetadataValue
                )
                self.replay_target_metadata(key, value)
            case ConsumerGroupTargetAssignmentMemberKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
                self.replay_target(key, value)
            case ConsumerGroupCurrentMemberAssignmentKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self.replay_current(key, value)
            case ConsumerGroupRegularExpressionKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
                self.replay_regex(key, value)
            case _:
                return False
        return True

    def replay_metadata(
        self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            group.group_epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        elif self._there(key.group_id) is not None:
            del self._context.groups[key.group_id]

    def replay_partition_metadata(
        self,
        key: ConsumerGroupPartitionMetadataKey,
        value: ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        group = self._there(key.group_id) if value is None else self._made(key.group_id)
        if group is not None:
            group.has_partition_metadata_record = value is not None

    def replay_member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            group.put_member(_member(group, key.member_id).with_metadata(value))
            return
        there = self._there(key.group_id)
        if there is not None:
            there.remove_member(key.member_id)

    def replay_target_metadata(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
            return
        there = self._there(key.group_id)
        if there is not None:
            there.assignment_epoch, there.assignment_timestamp_ms = INITIAL_EPOCH, 0

    def replay_target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            self._made(key.group_id).target[key.member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }
            return
        there = self._there(key.group_id)
        if there is not None:
            there.target.pop(key.member_id, None)

    def replay_current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            group.put_member(_member(group, key.member_id).with_current_assignment(value))
            return
        there = self._there(key.group_id)
        if there is not None and key.member_id in there.members:
            there.put_member(there.members[key.member_id].without_assignment())

    def replay_regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is not None:
            self._made(key.group_id).put_regex(
                key.regular_expression,
                ResolvedRegex(frozenset(value.topics), value.version, value.timestamp),
            )
            return
        there = self._there(key.group_id)
        if there is not None:
            there.remove_regex(key.regular_expression)

    def _there(self, group_id: str) -> ConsumerGroup | None:
        """None where a classic group has taken its place: then the tombstones come too late."""
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _made(self, group_id: str) -> ConsumerGroup:
        group = self._there(group_id)
        if group is None:
            group = self._context.groups[group_id] = ConsumerGroup(group_id)
        return group


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember.new(member_id)
