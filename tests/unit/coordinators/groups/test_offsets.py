from __future__ import annotations

import random

import pytest

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.committed_offset import CommittedOffset
from ottla.coordinators.groups.context import GroupContext
from ottla.coordinators.groups.offsets import Offsets
from ottla.coordinators.groups.records import (
    RECORD_TYPES,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.kernel.slices import at_once
from ottla.wire.codec import MalformedMessage
from tests.support.classic_groups import NoTopics
from tests.support.group_timers import ManualTimers

ONE_ID, OTHER_ID = TopicId(b"\x01" * 16), TopicId(b"\x02" * 16)
RETENTION_MS = 60_000
AT = TopicPartition("t", 0)


def make_offsets(**settings: str) -> Offsets:
    config = BrokerConfig(
        {
            "offsets.retention.minutes": "1",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    timers = ManualTimers(lambda operation: None)
    context = GroupContext(timers, lambda: config, timers.now_ms, random.Random(0), NoTopics())
    return Offsets(context)


def replay(offsets: Offsets, *records: CoordinatorRecord) -> None:
    """By way of their bytes, as loading does."""
    for record in records:
        offsets.replay(*decoded(record))


def decoded(record: CoordinatorRecord) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    found = decode_record(RECORD_TYPES, *encode_record(record))
    assert found is not None
    assert isinstance(found.key, OffsetCommitKey)
    assert found.value is None or isinstance(found.value, OffsetCommitValue)
    return found.key, found.value


def commit(offsets: Offsets, offset: int, at: TopicPartition = AT, **fields: object) -> None:
    committed = CommittedOffset(offset, **fields)  # type: ignore[arg-type]
    replay(offsets, offsets.commit("g", at, committed))


def commit_within(
    offsets: Offsets, producer_id: int, record_offset: int, offset: int, at: TopicPartition = AT
) -> None:
    """A transaction of this producer has it, and has not ended."""
    key, value = decoded(offsets.commit("g", at, CommittedOffset(offset, commit_timestamp=1000)))
    assert value is not None
    offsets.replay_pending(record_offset, producer_id, key, value)


def offset_of(offsets: Offsets, partition: int = 0) -> int | None:
    found = offsets.get("g", "t", partition)
    return None if found is None else found.offset


def test_all_of_an_offset_is_kept() -> None:
    offsets = make_offsets()
    committed = CommittedOffset(7, 3, "why", 1000, topic_id=ONE_ID)
    record = offsets.commit("g", AT, committed)
    assert offsets.get("g", "t", 0) is None, "only what is in the log counts"
    replay(offsets, record)
    assert offsets.get("g", "t", 0) == committed
    assert offsets.topics("g") == {"t": {0: committed}}
    assert offsets.group_ids() == ["g"]
    assert (record.value_version, offsets.get("g", "t", 1), offsets.topics("h")) == (4, None, {})


def test_an_expiry_of_the_clients_own_is_kept_in_the_schema_that_has_it() -> None:
    """As Kafka does; leader epoch and topic id have no place in it."""
    offsets = make_offsets()
    committed = CommittedOffset(7, 3, "why", 1000, expire_timestamp=2000, topic_id=ONE_ID)
    record = offsets.commit("g", AT, committed)
    assert record.value_version == 1
    replay(offsets, record)
    assert offsets.get("g", "t", 0) == CommittedOffset(7, -1, "why", 1000, 2000)


def test_an_offset_is_of_one_topic_of_that_name() -> None:
    offsets = make_offsets()
    commit(offsets, 7, topic_id=ONE_ID)
    commit(offsets, 8, TopicPartition("t", 1))
    assert offsets.get("g", "t", 0, ONE_ID) is not None
    assert offsets.get("g", "t", 0) is not None
    assert offsets.get("g", "t", 0, OTHER_ID) is None
    assert offsets.get("g", "t", 1, OTHER_ID) is not None, "who committed it did not say"


@pytest.mark.parametrize(
    ("metadata", "is_taken"),
    [("x" * 10, True), ("x" * 11, False), ("ä" * 10, True), ("\U0001f600" * 6, False)],
)
def test_metadata_has_a_limit_in_units_of_utf_16(metadata: str, is_taken: bool) -> None:
    offsets = make_offsets(offset_metadata_max_bytes="10")
    committed = CommittedOffset(7, metadata=metadata)
    if is_taken:
        offsets.commit("g", AT, committed)
        return
    with pytest.raises(KafkaError) as raised:
        offsets.commit("g", AT, committed)
    assert raised.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_deleting_writes_tombstones_for_what_is_there() -> None:
    offsets = make_offsets()
    for partition in range(3):
        commit(offsets, partition, TopicPartition("t", partition))
    commit(offsets, 9, TopicPartition("u", 0))
    assert offsets.delete("g", TopicPartition("t", 5)) == []
    assert offsets.delete("h", AT) == []
    replay(offsets, *offsets.delete("g", TopicPartition("t", 1)))
    assert set(offsets.topics("g")["t"]) == {0, 2}
    replay(offsets, *offsets.delete_topics(["u", "missing"]))
    assert set(offsets.topics("g")) == {"t"}
    replay(offsets, *at_once(offsets.delete_group("g")))
    assert offsets.topics("g") == {}
    assert offsets.knows("g"), "it is the group that is not deleted yet"
    offsets.replay_group_deleted("g")
    assert not offsets.knows("g")


def test_a_group_that_changes_its_kind_keeps_its_offsets() -> None:
    offsets = make_offsets()
    commit(offsets, 7)
    offsets.replay_group_deleted("g")
    assert offsets.get("g", "t", 0) is not None
    offsets.replay_group_deleted("unknown")


def test_tombstones_of_what_is_unknown_are_passed_over() -> None:
    offsets = make_offsets()
    offsets.replay(OffsetCommitKey(group="g", topic="t", partition=0), None)
    assert not offsets.knows("g")


def test_records_of_old_brokers_are_read() -> None:
    offsets = make_offsets()
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=7, metadata="why", commit_timestamp=1000)
    offsets.replay_legacy(key, value)
    assert offsets.get("g", "t", 0) == CommittedOffset(7, -1, "why", 1000)
    offsets.replay_legacy(key, None)
    assert offsets.get("g", "t", 0) is None


def expired(offsets: Offsets, now_ms: int) -> tuple[set[int], bool]:
    """The partitions whose offsets expire, and whether none is left."""
    records, is_all = offsets.expire("g", now_ms)
    keys = [record.key for record in records]
    assert all(record.value is None for record in records)
    return {key.partition for key in keys if isinstance(key, OffsetCommitKey)}, is_all


def test_without_a_group_an_offset_expires_by_its_own_age() -> None:
    offsets = make_offsets()
    commit(offsets, 1, commit_timestamp=1000)
    commit(offsets, 2, TopicPartition("t", 1), commit_timestamp=2000)
    assert expired(offsets, 999 + RETENTION_MS) == (set(), False)
    assert expired(offsets, 1000 + RETENTION_MS) == ({0}, False)
    assert expired(offsets, 2000 + RETENTION_MS) == ({0, 1}, True)
    assert offsets.expire("unknown", 0) == ([], True)


def test_an_expiry_of_the_clients_own_goes_over_that_of_the_broker() -> None:
    offsets = make_offsets()
    commit(offsets, 1, commit_timestamp=1000, expire_timestamp=1500)
    commit(
        offsets,
        2,
        TopicPartition("t", 1),
        commit_timestamp=1000,
        expire_timestamp=10 * RETENTION_MS,
    )
    assert expired(offsets, 1499) == (set(), False)
    assert expired(offsets, 1500) == ({0}, False)
    assert expired(offsets, 5 * RETENTION_MS) == ({0}, False)


class GroupDouble(ClassicGroup):
    """With the answers that a test gives it."""

    base_ms: int | None = None
    read_topics: tuple[str, ...] = ()

    def offset_expiry_base_ms(self, commit_timestamp: int) -> int | None:
        return self.base_ms

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.read_topics


def test_with_a_group_it_is_the_group_that_says_from_when_on() -> None:
    offsets = make_offsets()
    group = GroupDouble("g", now_ms=0)
    offsets._context.groups["g"] = group
    commit(offsets, 1, commit_timestamp=1000)
    assert expired(offsets, 10 * RETENTION_MS) == (set(), False), "it has members"
    group.base_ms = 5000
    assert expired(offsets, 4999 + RETENTION_MS) == (set(), False)
    assert expired(offsets, 5000 + RETENTION_MS) == ({0}, True)
    group.read_topics = ("t",)
    assert expired(offsets, 10 * RETENTION_MS) == (set(), False)


PLAIN = CommittedOffset(7, 3, "", 1000, topic_id=ONE_ID)


def test_the_short_cut_of_loading_leads_to_the_same() -> None:
    offsets = make_offsets()
    for group_id in ("g", "ä" * 50):
        for topic in ("t", "u"):
            for partition in (0, 1, 100_000):
                at = TopicPartition(topic, partition)
                key, value = encode_record(offsets.commit(group_id, at, PLAIN))
                assert value is not None
                assert offsets.replay_plain(key, value)
                assert offsets.get(group_id, topic, partition) == PLAIN
    offsets.loaded()
    assert offsets.topics("g") == {"t": dict.fromkeys((0, 1, 100_000), PLAIN)} | {
        "u": dict.fromkeys((0, 1, 100_000), PLAIN)
    }


@pytest.mark.parametrize(
    "committed",
    [
        PLAIN._replace(metadata="why"),
        PLAIN._replace(topic_id=NO_TOPIC_ID),
        PLAIN._replace(expire_timestamp=2000),
        # As long as the plain ones.
        PLAIN._replace(metadata="x" * 18, topic_id=NO_TOPIC_ID),
    ],
)
def test_the_short_cut_is_for_plain_offsets_only(committed: CommittedOffset) -> None:
    offsets = make_offsets()
    key, value = encode_record(offsets.commit("g", AT, committed))
    assert value is not None
    assert not offsets.replay_plain(key, value)
    assert not offsets.knows("g")


def test_the_short_cut_is_for_offsets_only() -> None:
    offsets = make_offsets()
    key, value = encode_record(offsets.commit("g", AT, PLAIN))
    assert value is not None
    assert not offsets.replay_plain(b"\0\2" + key[2:], value)
    assert not offsets.replay_plain(key + b"\0", value)
    assert not offsets.knows("g")


def test_the_short_cut_refuses_a_key_that_is_cut_off() -> None:
    offsets = make_offsets()
    key, value = encode_record(offsets.commit("g", AT, PLAIN))
    assert value is not None
    with pytest.raises(MalformedMessage):
        offsets.replay_plain(key[:-1], value)


# -- within transactions ------------------------------------------------------------------------

A, B = 1000, 2000
"""Producer ids."""


def test_an_offset_of_a_transaction_counts_when_that_commits() -> None:
    offsets = make_offsets()
    commit(offsets, 1)
    commit_within(offsets, A, 5, 2)
    assert offset_of(offsets) == 1
    assert not offsets.is_stable("g", "t", 0)
    assert offsets.is_stable("g", "t", 1)
    at_once(offsets.end_transaction(A, is_commit=True))
    assert offset_of(offsets) == 2
    assert offsets.is_stable("g", "t", 0)


def test_an_offset_of_a_transaction_vanishes_when_that_aborts() -> None:
    offsets = make_offsets()
    commit_within(offsets, A, 5, 2)
    at_once(offsets.end_transaction(A, is_commit=False))
    at_once(offsets.end_transaction(A, is_commit=True))
    assert offset_of(offsets) is None
    assert offsets.is_stable("g", "t", 0)
    assert offsets.knows("g"), "as Kafka has it: the group lives until it expires or is deleted"


def test_a_group_is_known_by_the_first_offset_that_waits() -> None:
    offsets = make_offsets()
    commit_within(offsets, A, 5, 2)
    assert offsets.group_ids() == ["g"]
    assert offsets.topics("g") == {}


@pytest.mark.parametrize("is_short_cut", [False, True])
def test_a_plain_commit_after_it_is_newer_than_a_transaction_that_ends_later(
    is_short_cut: bool,
) -> None:
    offsets = make_offsets()
    commit_within(offsets, A, 5, 2)
    record = offsets.commit("g", AT, PLAIN)
    if is_short_cut:
        key, value = encode_record(record)
        assert value is not None
        assert offsets.replay_plain(key, value)
    else:
        replay(offsets, record)
    assert offset_of(offsets) == PLAIN.offset
    assert not offsets.is_stable("g", "t", 0)
    at_once(offsets.end_transaction(A, is_commit=True))
    assert offset_of(offsets) == PLAIN.offset


def test_of_two_transactions_the_later_record_counts_whichever_ends_first() -> None:
    offsets = make_offsets()
    commit_within(offsets, A, 5, 2)
    commit_within(offsets, B, 6, 3)
    at_once(offsets.end_transaction(B, is_commit=True))
    assert offset_of(offsets) == 3
    assert not offsets.is_stable("g", "t", 0)
    at_once(offsets.end_transaction(A, is_commit=True))
    assert offset_of(offsets) == 3

    commit_within(offsets, A, 7, 4)
    commit_within(offsets, B, 8, 5)
    at_once(offsets.end_transaction(A, is_commit=True))
    assert offset_of(offsets) == 4
    at_once(offsets.end_transaction(B, is_commit=True))
    assert offset_of(offsets) == 5


def test_a_transaction_that_aborts_gives_way_to_the_earlier_one() -> None:
    offsets = make_offsets()
    commit_within(offsets, A, 5, 2)
    commit_within(offsets, B, 6, 3)
    at_once(offsets.end_transaction(B, is_commit=False))
    at_once(offsets.end_transaction(A, is_commit=True))
    assert offset_of(offsets) == 2


def test_deleting_takes_what_waits_as_well() -> None:
    offsets = make_offsets()
    other = TopicPartition("t", 1)
    commit(offsets, 1)
    commit_within(offsets, A, 5, 2)
    commit_within(offsets, A, 6, 3, other)
    replay(offsets, *offsets.delete("g", other))
    assert len(at_once(offsets.delete_group("g"))) == 1, "one for both"
    commit_within(offsets, B, 7, 4, other)
    assert len(at_once(offsets.delete_group("g"))) == 2
    replay(offsets, *at_once(offsets.delete_group("g")))
    offsets.replay_group_deleted("g")
    at_once(offsets.end_transaction(A, is_commit=True))
    at_once(offsets.end_transaction(B, is_commit=True))
    assert not offsets.knows("g")


def test_a_topic_that_is_deleted_takes_what_waits_with_it() -> None:
    offsets = make_offsets()
    kept = TopicPartition("u", 0)
    commit_within(offsets, A, 5, 2)
    commit_within(offsets, A, 6, 3, kept)
    replay(offsets, *offsets.delete_topics(["t"]))
    at_once(offsets.end_transaction(A, is_commit=True))
    assert set(offsets.topics("g")) == {"u"}


def test_a_group_that_changes_its_kind_keeps_what_waits() -> None:
    offsets = make_offsets()
    commit_within(offsets, A, 5, 2)
    offsets.replay_group_deleted("g")
    assert offsets.knows("g")
    at_once(offsets.end_transaction(A, is_commit=True))
    assert offset_of(offsets) == 2


def test_what_a_transaction_may_change_does_not_expire() -> None:
    offsets = make_offsets()
    commit(offsets, 1, commit_timestamp=1000)
    commit(offsets, 2, TopicPartition("t", 1), commit_timestamp=1000)
    commit_within(offsets, A, 5, 3)
    late_ms = 1000 + RETENTION_MS
    assert expired(offsets, late_ms) == ({1}, False)
    at_once(offsets.end_transaction(A, is_commit=False))
    assert expired(offsets, late_ms) == ({0, 1}, True)


def test_a_group_stays_while_a_transaction_has_offsets_of_it() -> None:
    offsets = make_offsets()
    commit_within(offsets, A, 5, 3)
    assert expired(offsets, 10 * RETENTION_MS) == (set(), False)
    at_once(offsets.end_transaction(A, is_commit=False))
    assert expired(offsets, 10 * RETENTION_MS) == (set(), True)
