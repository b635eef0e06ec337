"""Offsets are committed, plainly and within transactions, which end either way; they are deleted,
with their groups and their topics, and expire; the coordinator is loaded anew, also from a log that
was compacted. What must hold all the time:

- what is visible is, of each partition, the newest record after the last tombstone that is plain or
  of a transaction that has committed;
- so nothing of an aborted transaction is ever visible;
- what one who asks for stable offsets is shown, no open transaction can change;
- what is loaded from the log is what was there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.context import Client, GroupContext
from ottla.coordinators.groups.group_shard import GroupShard
from ottla.coordinators.groups.records import RECORD_TYPES, OffsetCommitKey, OffsetCommitValue
from ottla.coordinators.record import decode_record, encode_record
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.kernel.slices import at_once
from ottla.records.batch import NO_PRODUCER_ID
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.classic_groups import NoTopics
from tests.support.counts import count
from tests.support.group_timers import ManualTimers

GROUPS = ["g", "h"]
TOPICS = ["t", "u"]
PARTITIONS = [0, 1]
PRODUCERS = [1000, 2000]
TOPIC_ID = TopicId(b"\x01" * 16)
RETENTION_MS = 60_000

Place = tuple[str, str, int]
"""Group, topic, partition."""

# Mostly one place, so that commits meet each other.
groups = st.sampled_from(["g", "g", "g", "h"])
topics = st.sampled_from(["t", "t", "t", "u"])
partitions = st.sampled_from([[0], [0], [0, 1]])
producers = st.sampled_from(PRODUCERS)


class Entry(NamedTuple):
    """Of the log: a record, or without a key the end of a producer's transaction."""

    producer_id: int
    key: bytes | None = None
    value: bytes | None = None
    is_commit: bool = False
    place: Place | None = None
    committed: int | None = None


class Offsets(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.log: dict[int, Entry] = {}
        self.end_offset = 0
        self.last_committed = 0
        self.config = BrokerConfig(
            {
                "offsets.retention.minutes": str(RETENTION_MS // 60_000),
                "offsets.retention.check.interval.ms": str(RETENTION_MS),
            }
        )
        self.timers = ManualTimers(self.run_timer)
        self.shard = self.load()

    # -- what the runtime does --------------------------------------------------------------

    def load(self) -> GroupShard:
        context = GroupContext(
            self.timers, lambda: self.config, self.timers.now_ms, random.Random(0), NoTopics()
        )
        shard = GroupShard(context)
        for offset, entry in self.log.items():
            if entry.key is None:
                at_once(shard.end_transaction(entry.producer_id, entry.is_commit))
            elif entry.producer_id != NO_PRODUCER_ID or not (
                entry.value and shard.replay_plain(entry.key, entry.value)
            ):
                self.replay(shard, offset, entry)
        shard.loaded()
        return shard

    def replay(self, shard: GroupShard, offset: int, entry: Entry) -> None:
        record = decode_record(RECORD_TYPES, entry.key or b"", entry.value)
        assert record is not None
        shard.replay(offset, record, entry.producer_id)

    def write(self, result: Result[Any], producer_id: int = NO_PRODUCER_ID) -> Any:
        for record in result.records:
            place = committed = None
            if isinstance(record.key, OffsetCommitKey):
                place = (record.key.group, record.key.topic, record.key.partition)
            if isinstance(record.value, OffsetCommitValue):
                committed = record.value.offset
            entry = Entry(producer_id, *encode_record(record), False, place, committed)
            self.replay(self.shard, self.append(entry), entry)
        return result.response

    def append(self, entry: Entry) -> int:
        self.log[self.end_offset] = entry
        self.end_offset += 1
        return self.end_offset - 1

    def run_timer(self, operation: Callable[[], Result[Any]]) -> None:
        self.write(operation())

    # -- clients ----------------------------------------------------------------------------

    def next_offset(self) -> int:
        """Each is committed once, so that it tells where it is from."""
        self.last_committed += 1
        return self.last_committed

    @rule(group_id=groups, topic=topics, numbers=partitions, has_topic_id=st.booleans())
    def commit(self, group_id: str, topic: str, numbers: list[int], has_topic_id: bool) -> None:
        asked = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=self.next_offset()
            )
            for number in numbers
        ]
        request = OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1)
        request.topics = [OffsetCommitRequestTopic(name=topic, partitions=asked)]
        if has_topic_id:  # Then it is loaded by the short cut.
            request.topics[0].topic_id = TOPIC_ID
        self.write(at_once(self.shard.commit_offsets(request, Client("", "", 9))))

    @rule(producer_id=producers, group_id=groups, topic=topics, numbers=partitions)
    def commit_within(
        self, producer_id: int, group_id: str, topic: str, numbers: list[int]
    ) -> None:
        asked = [
            TxnOffsetCommitRequestPartition(
                partition_index=number, committed_offset=self.next_offset()
            )
            for number in numbers
        ]
        request = TxnOffsetCommitRequest(
            group_id=group_id,
            producer_id=producer_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=asked)],
        )
        self.write(at_once(self.shard.commit_transactional_offsets(request)), producer_id)

    @rule(producer_id=producers, is_commit=st.booleans())
    def end(self, producer_id: int, is_commit: bool) -> None:
        self.append(Entry(producer_id, is_commit=is_commit))
        at_once(self.shard.end_transaction(producer_id, is_commit))

    @rule(
        what=st.sampled_from(["offsets", "group", "topic"]),
        group_id=groups,
        topic=topics,
        numbers=partitions,
    )
    def delete(self, what: str, group_id: str, topic: str, numbers: list[int]) -> None:
        try:
            if what == "offsets":
                self.write(
                    at_once(self.shard.delete_offsets(_delete_request(group_id, topic, numbers)))
                )
            elif what == "group":
                self.write(at_once(self.shard.delete_group(group_id)))
            else:
                self.write(at_once(self.shard.topics_deleted([topic])))
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
        left = self.visible_by_log().keys() | self.unstable_by_log()
        if what == "offsets":
            assert not left & {(group_id, topic, number) for number in numbers}
        elif what == "group":
            assert group_id not in [place[0] for place in left]
            assert group_id not in [listed.group_id for listed in self.shard.list_groups()]
        else:
            assert topic not in [place[1] for place in left]

    @rule(by_ms=st.sampled_from([1000, RETENTION_MS // 2, 2 * RETENTION_MS]))
    def wait(self, by_ms: int) -> None:
        unstable = self.unstable_by_log()
        before = self.visible_by_log()
        self.timers.advance(by_ms)
        assert self.unstable_by_log() == unstable, "what waits does not expire"
        for place in unstable & before.keys():
            assert self.visible_by_log()[place] == before[place]

    # -- the coordinator --------------------------------------------------------------------

    @rule()
    def reload(self) -> None:
        before = self.shard
        self.timers.cancel_all()
        before.unloaded()
        self.shard = self.load()
        assert self.picture(self.shard) == self.picture(before)

    @precondition(lambda self: self.log)
    @rule()
    def compact(self) -> None:
        """As the cleaner does, up to where a transaction is open: what was aborted goes, and of
        each key the newest stays. Markers stay for a while, and so do tombstones."""
        is_open = set(self.open_producers())
        first_open = min(
            (
                offset
                for offset, entry in self.entries()
                if entry.producer_id in is_open and self.end_of(offset, entry) is None
            ),
            default=self.end_offset,
        )
        cleanable = [(offset, entry) for offset, entry in self.entries() if offset < first_open]
        newest: dict[bytes, int] = {}
        for offset, entry in cleanable:
            if entry.key is not None and self.end_of(offset, entry) is not False:
                newest[entry.key] = offset
        self.log = {
            offset: entry
            for offset, entry in self.log.items()
            if offset >= first_open or entry.key is None or newest.get(entry.key) == offset
        }
        before = self.visible(self.shard)
        self.timers.cancel_all()
        self.shard.unloaded()
        self.shard = self.load()
        assert self.visible(self.shard) == before

    # -- what the log says ------------------------------------------------------------------

    def entries(self) -> list[tuple[int, Entry]]:
        return list(self.log.items())

    def end_of(self, offset: int, entry: Entry) -> bool | None:
        """Whether it counts; None while its transaction is open."""
        if entry.producer_id == NO_PRODUCER_ID:
            return True
        for later, end in self.log.items():
            if later > offset and end.key is None and end.producer_id == entry.producer_id:
                return end.is_commit
        return None

    def open_producers(self) -> list[int]:
        return [
            producer_id
            for producer_id in PRODUCERS
            if any(
                entry.producer_id == producer_id and self.end_of(offset, entry) is None
                for offset, entry in self.entries()
                if entry.key is not None
            )
        ]

    def read_log(self, assumed: int | None = None) -> tuple[dict[Place, int], set[Place]]:
        """What is visible, and what waits; as if the assumed producer committed now."""
        visible: dict[Place, int] = {}
        unstable: set[Place] = set()
        for offset, entry in self.entries():
            place = entry.place
            if place is None:
                continue
            if entry.committed is None:
                visible.pop(place, None)
                unstable.discard(place)
                continue
            counts = self.end_of(offset, entry)
            if counts is None and entry.producer_id == assumed:
                counts = True
            if counts:
                visible[place] = entry.committed
            elif counts is None:
                unstable.add(place)
        return visible, unstable

    def visible_by_log(self) -> dict[Place, int]:
        return self.read_log()[0]

    def unstable_by_log(self) -> set[Place]:
        return self.read_log()[1]

    # -- what the shard says ----------------------------------------------------------------

    def visible(self, shard: GroupShard) -> dict[Place, int]:
        return {
            (group_id, topic, number): committed.offset
            for group_id in GROUPS
            for topic, offsets in shard.offsets.topics(group_id).items()
            for number, committed in offsets.items()
        }

    def unstable(self, shard: GroupShard) -> set[Place]:
        return {
            (group_id, topic, number)
            for group_id in GROUPS
            for topic in TOPICS
            for number in PARTITIONS
            if not shard.offsets.is_stable(group_id, topic, number)
        }

    def picture(self, shard: GroupShard) -> Any:
        """All that can be seen of it, now or later."""
        pending = shard.offsets._pending
        listed = sorted(group.group_id for group in shard.list_groups())
        return self.visible(shard), pending.groups, pending._producers, listed

    @invariant()
    def is_as_the_log_says(self) -> None:
        visible, unstable = self.read_log()
        assert self.visible(self.shard) == visible
        assert self.unstable(self.shard) == unstable

    @invariant()
    def stable_offsets_cannot_be_changed_by_transactions(self) -> None:
        visible, unstable = self.read_log()
        for producer_id in self.open_producers():
            after, _ = self.read_log(assumed=producer_id)
            for place in after.keys() - unstable:
                assert after[place] == visible.get(place)


def _delete_request(group_id: str, topic: str, numbers: list[int]) -> OffsetDeleteRequest:
    asked = [OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
    return OffsetDeleteRequest(
        group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=asked)]
    )


TestOffsets = Offsets.TestCase
TestOffsets.settings = settings(max_examples=count(1000), stateful_step_count=40, deadline=None)
