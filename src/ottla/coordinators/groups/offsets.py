"""Committed offsets: written, read, deleted, expired. Those of open transactions are in
`pending_offsets.py`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.coordinators.groups.committed_offset import NO_TIMESTAMP, CommittedOffset
from ottla.coordinators.groups.context import GroupContext
from ottla.coordinators.groups.pending_offsets import PendingOffset, PendingOffsets
from ottla.coordinators.groups.records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinators.record import CoordinatorRecord
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.kernel.slices import Steps
from ottla.wire.codec import decoder

# The schema that carries an explicit expiry (Produced by clients before 2.1), and today's.
_VERSION_WITH_EXPIRY = 1
_VERSION = 4

# What nearly all records of a log look like: an offset of that version without metadata, and with
# the id of its topic. Version, offset, leader epoch, length of metadata + 1, time of commit; count
# of tagged fields, number and size of the one, its content.
_PLAIN = struct.Struct(">hqiBqBBB16s")
_KEY_TYPE = struct.pack(">h", OffsetCommitKey.API_KEY)
_PARTITION = struct.Struct(">i")


_FEW = 128


class OffsetsSeen(NamedTuple):
    """Of one group, as they were at one moment: an answer is made of them while others commit."""

    topics: dict[str, dict[int, CommittedOffset]]
    unstable: frozenset[TopicPartition]

    def get(self, topic: str, partition: int, topic_id: TopicId) -> CommittedOffset | None:
        return _of_topic(self.topics.get(topic, {}).get(partition), topic_id)

    def is_stable(self, topic: str, partition: int) -> bool:
        return TopicPartition(topic, partition) not in self.unstable


class Offsets:
    """The offsets of one shard's groups. Changed by `replay` only."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._pending = PendingOffsets()
        # While loading: group and topic by the bytes of a key before the partition.
        self._names: dict[bytes, tuple[str, str]] = {}
        self._topic_ids: dict[bytes, TopicId] = {}

    # -- reading ----------------------------------------------------------------------------

    def get(
        self, group_id: str, topic: str, partition: int, topic_id: TopicId = NO_TOPIC_ID
    ) -> CommittedOffset | None:
        """None also for an offset in another topic of this name, which was deleted; its tombstone
        is on its way, or was lost in a crash."""
        return _of_topic(self._groups.get(group_id, {}).get(topic, {}).get(partition), topic_id)

    def seen(
        self, group_id: str, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> OffsetsSeen:
        """At least those of the topics and partitions that are wanted; all without any. To copy a
        table takes next to nothing beside an answer as long as it."""
        topics = self._groups.get(group_id, {})
        unstable = frozenset(self._pending.groups.get(group_id, ()))
        if wanted is None or len(wanted) > _FEW:
            return OffsetsSeen({name: dict(found) for name, found in topics.items()}, unstable)
        taken: dict[str, dict[int, CommittedOffset]] = {}
        for name, indexes in wanted:
            found = topics.get(name, {})
            if len(indexes) <= _FEW:
                found = {index: found[index] for index in indexes if index in found}
            taken.setdefault(name, {}).update(found)
        return OffsetsSeen(taken, unstable)

    def is_stable(self, group_id: str, topic: str, partition: int) -> bool:
        """Not while a transaction that has committed one for this partition is open."""
        return not self._pending.contains(group_id, TopicPartition(topic, partition))

    def topics(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        return self._groups.get(group_id, {})

    def knows(self, group_id: str) -> bool:
        """Whether there were ever offsets, even if all are gone: a group without members is its
        offsets, and lives until it is deleted or expires."""
        return group_id in self._groups

    def group_ids(self) -> list[str]:
        return list(self._groups)

    # -- records ----------------------------------------------------------------------------

    def commit(
        self, group_id: str, at: TopicPartition, committed: CommittedOffset
    ) -> CoordinatorRecord:
        """Raises KafkaError where the client's metadata is too large to keep. Kafka counts what
        Java does: units of UTF-16, whatever the setting is called."""
        if committed.metadata:
            metadata_max = self._context.config().offset_metadata_max_bytes
            if len(committed.metadata.encode("utf-16-le")) // 2 > metadata_max:
                raise KafkaError(
                    ErrorCode.OFFSET_METADATA_TOO_LARGE,
                    f"the metadata of {at} is larger than offset.metadata.max.bytes={metadata_max}",
                )
        has_expiry = committed.expire_timestamp != NO_TIMESTAMP
        value = OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp,
            expire_timestamp=committed.expire_timestamp,
            topic_id=committed.topic_id,
        )
        key = OffsetCommitKey(group=group_id, topic=at.topic, partition=at.partition)
        return CoordinatorRecord(key, value, _VERSION_WITH_EXPIRY if has_expiry else _VERSION)

    def delete(self, group_id: str, at: TopicPartition) -> list[CoordinatorRecord]:
        if self.get(group_id, at.topic, at.partition) is None and not self._pending.contains(
            group_id, at
        ):
            return []
        return [_tombstone(group_id, at.topic, at.partition)]

    def delete_group(self, group_id: str) -> Steps[list[CoordinatorRecord]]:
        records = []
        for topic, number, _ in self._all(group_id):
            records.append(_tombstone(group_id, topic, number))
            yield
        for record in self._pending_tombstones(group_id):
            records.append(record)
            yield
        return records

    def _pending_tombstones(self, group_id: str) -> Iterator[CoordinatorRecord]:
        """For partitions that have nothing but offsets of open transactions."""
        for topic, partition in self._pending.partitions(group_id):
            if self.get(group_id, topic, partition) is None:
                yield _tombstone(group_id, topic, partition)

    def delete_topics(self, names: Iterable[str]) -> Iterator[CoordinatorRecord]:
        """For topics that are gone: a topic of the same name later is another one."""
        gone = set(names)
        for group_id, topics in self._groups.items():
            for topic in topics.keys() & gone:
                for partition in topics[topic]:
                    yield _tombstone(group_id, topic, partition)
        for group_id in self._pending.groups:
            for record in self._pending_tombstones(group_id):
                assert isinstance(record.key, OffsetCommitKey)
                if record.key.topic in gone:
                    yield record

    def expire(self, group_id: str, now_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """Tombstones for what has outlived its retention, and whether nothing is left. What an
        open transaction may still change stays."""
        group = self._context.groups.get(group_id)
        retention_ms = self._context.config().offsets_retention_minutes * 60_000
        records: list[CoordinatorRecord] = []
        is_all = group_id not in self._pending.groups
        for topic, partition, committed in self._all(group_id):
            base_ms = None
            if group is None:
                base_ms = committed.commit_timestamp
            elif not group.is_subscribed_to(topic):
                base_ms = group.offset_expiry_base_ms(committed.commit_timestamp)
            if (
                base_ms is not None
                and _is_expired(committed, base_ms, retention_ms, now_ms)
                and self.is_stable(group_id, topic, partition)
            ):
                records.append(_tombstone(group_id, topic, partition))
            else:
                is_all = False
        return records, is_all

    def _all(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    # -- replay -----------------------------------------------------------------------------

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is None:
            self._forget(key)
            return
        if self._pending.groups:
            self._pending.overtake(key.group, TopicPartition(key.topic, key.partition))
        self._partitions(key.group, key.topic)[key.partition] = CommittedOffset.from_record(value)

    def replay_pending(
        self, offset: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        """The group is known from now on, as if the offset were committed."""
        self._groups.setdefault(key.group, {})
        pending = PendingOffset(offset, CommittedOffset.from_record(value))
        at = TopicPartition(key.topic, key.partition)
        self._pending.add(producer_id, key.group, at, pending)

    def end_transaction(self, producer_id: int, is_commit: bool) -> Steps[None]:
        for group_id, at, pending in (yield from self._pending.end(producer_id)):
            if is_commit:
                self._pending.overtake(group_id, at, pending.record_offset)
                self._partitions(group_id, at.topic)[at.partition] = pending.committed
            yield

    def _partitions(self, group_id: str, topic: str) -> dict[int, CommittedOffset]:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        return partitions

    def replay_plain(self, key: bytes, value: bytes) -> bool:
        """See `State`. This halves the time that a million offsets take."""
        if len(value) != _PLAIN.size:
            return False
        version, offset, leader_epoch, metadata_end, timestamp, tags, tag, size, topic_id = (
            _PLAIN.unpack(value)
        )
        if (version, metadata_end, tags, tag, size) != (_VERSION, 1, 1, 0, 16):
            return False
        names = self._names.get(key[: -_PARTITION.size])
        if names is None:
            if not key.startswith(_KEY_TYPE):
                return False
            decoded, end = decoder(OffsetCommitKey, 0)(key, len(_KEY_TYPE))
            if end != len(key):
                return False
            names = decoded.group, decoded.topic
            self._names[key[: -_PARTITION.size]] = names
        (partition,) = _PARTITION.unpack_from(key, len(key) - _PARTITION.size)
        if self._pending.groups:
            self._pending.overtake(names[0], TopicPartition(names[1], partition))
        self._partitions(*names)[partition] = CommittedOffset(
            offset,
            leader_epoch,
            "",
            timestamp,
            NO_TIMESTAMP,
            self._topic_ids.setdefault(topic_id, topic_id),
        )
        return True

    def loaded(self) -> None:
        self._names.clear()
        self._topic_ids.clear()

    def replay_legacy(
        self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
    ) -> None:
        """As brokers before Kafka 0.8.2 wrote them."""
        modern = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
        if value is None:
            self._forget(modern)
            return
        self.replay(
            modern,
            OffsetCommitValue(
                offset=value.offset,
                metadata=value.metadata,
                commit_timestamp=value.commit_timestamp,
            ),
        )

    def _forget(self, key: OffsetCommitKey) -> None:
        topics = self._groups.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        self._pending.forget(key.group, TopicPartition(key.topic, key.partition))

    def replay_group_deleted(self, group_id: str) -> None:
        """Its offsets were deleted before. If they were not, it was only its members that went:
        it became a group of the other protocol, and keeps them."""
        if not self._groups.get(group_id) and group_id not in self._pending.groups:
            self._groups.pop(group_id, None)


def _of_topic(found: CommittedOffset | None, topic_id: TopicId) -> CommittedOffset | None:
    if found is None or NO_TOPIC_ID in (topic_id, found.topic_id):
        return found
    return found if found.topic_id == topic_id else None


def _is_expired(committed: CommittedOffset, base_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp
    return now_ms - base_ms >= retention_ms


def _tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
    )
