from __future__ import annotations

from ottla.coordinators.groups.committed_offset import CommittedOffset
from ottla.coordinators.groups.pending_offsets import PendingOffset, PendingOffsets
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import at_once

A, B = 1000, 2000
"""Producer ids."""
AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def pending_at(record_offset: int) -> PendingOffset:
    return PendingOffset(record_offset, CommittedOffset(record_offset * 10))


def test_what_a_transaction_committed_comes_out_at_its_end() -> None:
    pending = PendingOffsets()
    pending.add(A, "g", OTHER, pending_at(5))
    pending.add(A, "h", AT, pending_at(6))
    pending.add(B, "g", AT, pending_at(7))
    assert pending.contains("g", AT)
    assert not pending.contains("h", OTHER)
    assert set(pending.partitions("g")) == {AT, OTHER}
    assert at_once(pending.end(A)) == [("g", OTHER, pending_at(5)), ("h", AT, pending_at(6))]
    assert set(pending.groups) == {"g"}
    assert at_once(pending.end(A)) == [], "a marker may come again"
    assert at_once(pending.end(B)) == [("g", AT, pending_at(7))]
    assert pending.groups == {}


def test_the_last_of_one_transaction_counts() -> None:
    pending = PendingOffsets()
    pending.add(A, "g", AT, pending_at(5))
    pending.add(A, "g", AT, pending_at(6))
    assert at_once(pending.end(A)) == [("g", AT, pending_at(6))]


def test_one_that_is_overtaken_waits_on_without_effect() -> None:
    pending = PendingOffsets()
    pending.add(A, "g", AT, pending_at(5))
    pending.overtake("g", AT)
    assert pending.contains("g", AT)
    assert at_once(pending.end(A)) == []
    assert pending.groups == {}


def test_a_commit_after_the_one_that_overtook_counts_again() -> None:
    pending = PendingOffsets()
    pending.add(A, "g", AT, pending_at(5))
    pending.overtake("g", AT)
    pending.add(A, "g", AT, pending_at(9))
    assert at_once(pending.end(A)) == [("g", AT, pending_at(9))]


def test_of_two_transactions_the_later_record_stays() -> None:
    pending = PendingOffsets()
    pending.add(A, "g", AT, pending_at(5))
    pending.add(B, "g", AT, pending_at(7))
    pending.overtake("g", AT, record_offset=7)
    assert at_once(pending.end(A)) == []
    assert at_once(pending.end(B)) == [("g", AT, pending_at(7))]


def test_what_is_not_there_is_overtaken_and_forgotten_without_effect() -> None:
    pending = PendingOffsets()
    pending.overtake("g", AT)
    pending.forget("g", AT)
    pending.add(A, "g", AT, pending_at(5))
    pending.overtake("g", OTHER)
    pending.overtake("h", AT)
    pending.forget("g", OTHER)
    assert at_once(pending.end(A)) == [("g", AT, pending_at(5))]


def test_what_is_deleted_no_transaction_brings_back() -> None:
    pending = PendingOffsets()
    pending.add(A, "g", AT, pending_at(5))
    pending.add(B, "g", AT, pending_at(6))
    pending.add(B, "g", OTHER, pending_at(7))
    pending.forget("g", AT)
    assert not pending.contains("g", AT)
    assert at_once(pending.end(A)) == []
    assert at_once(pending.end(B)) == [("g", OTHER, pending_at(7))]
