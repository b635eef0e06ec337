"""The state of one partition of `__consumer_offsets`: its groups, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from ottla.coordinators.groups import records as group_records
from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.classic.protocol import ClassicProtocol
from ottla.coordinators.groups.classic.records import group_tombstone
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.protocol import ConsumerProtocol
from ottla.coordinators.groups.context import Client, GroupContext
from ottla.coordinators.groups.group import Group
from ottla.coordinators.groups.offset_commits import OffsetCommits
from ottla.coordinators.groups.offsets import Offsets
from ottla.coordinators.groups.records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinators.record import CoordinatorRecord, RecordType
from ottla.coordinators.result import Planned, Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import Steps
from ottla.records.batch import NO_PRODUCER_ID
from ottla.wire.messages.consumer_group_describe import DescribedGroup as ConsumerDescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListedGroup
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

NOT_FOUND_IS_TOLD_SINCE = 6

_EXPIRY_TIMER = "expire offsets"
_EXPIRY_SLICE = 1000
"""So many offsets are looked at before others get their turn: a millisecond or less."""
_EXPIRY_PAUSE_MS = 10


class GroupShard:
    """Made by the runtime when this broker begins to lead the partition, dropped when it no
    longer does."""

    RECORD_TYPES: ClassVar[Mapping[int, RecordType]] = group_records.RECORD_TYPES

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._classic = ClassicProtocol(context)
        self._consumer = ConsumerProtocol(context)
        self.offsets = Offsets(context)
        self._commits = OffsetCommits(context, self._classic, self._consumer, self.offsets)

    # -- members ----------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, client: Client) -> Planned[JoinGroupResponse]:
        group = self._context.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            has_offsets = self.offsets.knows(request.group_id)
            return self._classic.join(request, client, has_offsets=has_offsets)
        if group.is_empty:
            return self._classic.join(request, client, self._consumer.delete(group))
        return self._consumer.classic.join(group, request, client)

    def sync(self, request: SyncGroupRequest, client: Client) -> Planned[SyncGroupResponse]:
        group = self._context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic.sync(group, request, client)
        return self._classic.sync(request, client)

    def heartbeat(self, request: HeartbeatRequest, client: Client) -> Result[HeartbeatResponse]:
        group = self._context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic.heartbeat(group, request, client)
        return self._classic.heartbeat(request, client)

    def leave(
        self, request: LeaveGroupRequest, client: Client
    ) -> Steps[Result[LeaveGroupResponse]]:
        group = self._context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic.leave(group, request, client)
        return self._classic.leave(request, client)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> Steps[Result[ConsumerGroupHeartbeatResponse]]:
        return self._consumer.heartbeat(request, client)

    # -- offsets ----------------------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommitRequest, client: Client
    ) -> Steps[Result[OffsetCommitResponse]]:
        return self._commits.commit(request, client)

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest
    ) -> Steps[Result[TxnOffsetCommitResponse]]:
        """To be written within the producer's transaction."""
        return self._commits.commit_transactional(request)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Steps[Result[OffsetDeleteResponse]]:
        group = self._find(request.group_id)
        if group is not None:
            group.check_offset_delete()
        records: list[CoordinatorRecord] = []
        response = OffsetDeleteResponse()
        for topic in request.topics:
            is_read = group is not None and group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            answers: list[OffsetDeleteResponsePartition] = []
            for asked in topic.partitions:
                index = asked.partition_index
                answers.append(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                )
                if not is_read:
                    at = TopicPartition(topic.name, index)
                    records += self.offsets.delete(request.group_id, at)
                yield
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        return Result(response, records)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError where this member may not read the group's offsets."""
        group = self._context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            self._consumer.check_fetch(group, member_id, member_epoch)

    def topics_changed(self, names: Iterable[str]) -> None:
        """Made, deleted, or with more partitions."""
        self._consumer.topics_changed(names)

    def topics_deleted(self, names: Iterable[str]) -> Steps[Result[None]]:
        records: list[CoordinatorRecord] = []
        for record in self.offsets.delete_topics(names):
            records.append(record)
            yield
        return Result(None, records, is_atomic=False)

    # -- groups -----------------------------------------------------------------------------

    def list_groups(self) -> list[ListedGroup]:
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type_name,
            )
            for group in self._context.groups.values()
        ]
        known = self._context.groups
        listed += [
            ListedGroup(
                group_id=group_id, protocol_type="", group_state="Empty", group_type="classic"
            )
            for group_id in self.offsets.group_ids()
            if group_id not in known
        ]
        return listed

    def describe(self, group_id: str, client: Client) -> DescribedGroup:
        group = self._context.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self._classic.describe(group)
        if group is None and self.offsets.knows(group_id):
            return DescribedGroup(group_id=group_id, group_state="Empty")
        described = DescribedGroup(group_id=group_id, group_state="Dead")
        if client.api_version >= NOT_FOUND_IS_TOLD_SINCE:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = (
                f"Group {group_id} not found."
                if group is None
                else f"Group {group_id} is not a classic group."
            )
        return described

    def describe_consumer_group(self, group_id: str) -> ConsumerDescribedGroup:
        group = self._context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.describe(group)
        if group is None and not self.offsets.knows(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def delete_group(self, group_id: str) -> Steps[Result[DeletableGroupResult]]:
        group = self._find(group_id)
        if group is not None and not group.is_empty:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members: stop them first"
            )
        records = yield from self.offsets.delete_group(group_id)
        records += self._tombstones(group_id, group)
        return Result(DeletableGroupResult(group_id=group_id), records)

    def _tombstones(self, group_id: str, group: Group | None) -> list[CoordinatorRecord]:
        if isinstance(group, ClassicGroup):
            return self._classic.delete(group)
        if isinstance(group, ConsumerGroup):
            return self._consumer.delete(group)
        return [group_tombstone(group_id)]

    def _find(self, group_id: str) -> Group | None:
        """None for a group that consists of offsets only."""
        group = self._context.groups.get(group_id)
        if group is None and not self.offsets.knows(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        return group

    # -- time -------------------------------------------------------------------------------

    def _begin_expiry(self) -> Result[None]:
        return self._expire(list(dict.fromkeys([*self.offsets.group_ids(), *self._context.groups])))

    def _expire(self, group_ids: list[str]) -> Result[None]:
        """Of these groups what has outlived its retention; a group that has neither members nor
        offsets then is gone as well. In slices: nobody should wait for a million offsets."""
        now_ms = self._context.now_ms()
        records: list[CoordinatorRecord] = []
        seen_count = 0
        while group_ids and seen_count < _EXPIRY_SLICE:
            group_id = group_ids.pop()
            seen_count += 1 + sum(map(len, self.offsets.topics(group_id).values()))
            expired, is_all = self.offsets.expire(group_id, now_ms)
            records += expired
            group = self._context.groups.get(group_id)
            if is_all and (group is None or group.is_empty):
                records += self._tombstones(group_id, group)
        if group_ids:
            self._context.timers.schedule(
                _EXPIRY_TIMER, _EXPIRY_PAUSE_MS, lambda: self._expire(group_ids)
            )
        else:
            self._schedule_expiry()
        return Result(None, records, is_atomic=False)

    def _schedule_expiry(self) -> None:
        """A little earlier at random: the shards of a broker begin together, and should not come
        to this together."""
        interval_ms = self._context.config().offsets_retention_check_interval_ms
        early_ms = self._context.rng.randrange(interval_ms // 10 + 1)
        self._context.timers.schedule(_EXPIRY_TIMER, interval_ms - early_ms, self._begin_expiry)

    # -- what the runtime calls -------------------------------------------------------------

    def replay(
        self, offset: int, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if producer_id == NO_PRODUCER_ID or value is None:
                self.offsets.replay(key, value)
            else:
                self.offsets.replay_pending(offset, producer_id, key, value)
        elif isinstance(key, LegacyOffsetCommitKey):
            assert value is None or isinstance(value, LegacyOffsetCommitValue)
            self.offsets.replay_legacy(key, value)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._classic.replay_group(key, value)
            if value is None:
                self.offsets.replay_group_deleted(key.group)
        else:
            self._consumer.replay(record)
            if isinstance(key, ConsumerGroupMetadataKey) and value is None:
                self.offsets.replay_group_deleted(key.group_id)

    def end_transaction(self, producer_id: int, is_commit: bool) -> Steps[None]:
        return self.offsets.end_transaction(producer_id, is_commit)

    def replay_plain(self, key: bytes, value: bytes) -> bool:
        return self.offsets.replay_plain(key, value)

    def loaded(self) -> None:
        self.offsets.loaded()
        self._classic.loaded()
        self._consumer.loaded()
        self._schedule_expiry()

    def unloaded(self) -> None:
        self._classic.unloaded()
        self._consumer.unloaded()
