from __future__ import annotations

import struct

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import (
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    RECORD_COUNT_AT,
    BatchHeader,
    parse_header,
)
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker
from ottla.records.control import parse_end_txn_marker
from ottla.records.record import Record
from ottla.storage.producer_entry import ProducerEntry
from ottla.storage.producer_state import (
    VERIFICATION_COUNT_MAX,
    EndedTransaction,
    ProducerState,
    ProducerStateConfig,
)
from ottla.storage.verification import VerificationGuard

SEQUENCE_MAX = 2**31 - 1


def _state() -> ProducerState:
    return ProducerState(TopicPartition("t", 0), ProducerStateConfig(expiration_ms=1000))


def _header(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    timestamp: int = 50,
    is_transactional: bool = False,
) -> BatchHeader:
    return parse_header(
        build_batch(
            [Record(number, timestamp, None, b"v") for number in range(count)],
            producer_id=9,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


def _take(state: ProducerState, header: BatchHeader, offset: int) -> None:
    assert state.check(header, offset) is None
    state.update(header, offset)


def _refused(state: ProducerState, header: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        state.check(header, 99)
    return caught.value.code


def test_sequences_go_on_from_batch_to_batch() -> None:
    state = _state()
    _take(state, _header(0, 3), 10)
    _take(state, _header(3, 2), 13)
    entry = state.producers[9]
    assert (entry.last_sequence, entry.last_offset, entry.next_sequence) == (4, 14, 5)


def test_a_repeated_batch_is_told_from_a_new_one() -> None:
    state = _state()
    for number in range(5):
        _take(state, _header(number * 2, 2), 10 + number * 2)
    for number in range(5):
        duplicate = state.check(_header(number * 2, 2), 99)
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (
            10 + number * 2,
            11 + number * 2,
        )


def test_a_repeat_of_the_sixth_last_is_out_of_order() -> None:
    """As in Kafka, which has a code for it (DUPLICATE_SEQUENCE_NUMBER) and does not use it."""
    state = _state()
    for number in range(6):
        _take(state, _header(number), number)
    assert _refused(state, _header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_another_length_is_no_repeat() -> None:
    state = _state()
    _take(state, _header(0, 3), 0)
    assert _refused(state, _header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused() -> None:
    state = _state()
    _take(state, _header(0), 0)
    assert _refused(state, _header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere() -> None:
    state = _state()
    _take(state, _header(17), 0)
    _take(state, _header(18), 1)


def test_sequences_wrap_around() -> None:
    state = _state()
    _take(state, _header(SEQUENCE_MAX - 1, 2), 0)
    assert state.producers[9].next_sequence == 0
    duplicate = state.check(_header(SEQUENCE_MAX - 1, 2), 99)
    assert duplicate is not None
    _take(state, _header(0, 2), 2)


def test_a_batch_may_wrap_in_its_middle() -> None:
    state = _state()
    _take(state, _header(SEQUENCE_MAX, 3), 0)
    assert state.producers[9].last_sequence == 1
    duplicate = state.check(_header(SEQUENCE_MAX, 3), 99)
    assert duplicate is not None
    assert duplicate.first_offset == 0
    _take(state, _header(2), 3)


def test_a_new_epoch_begins_at_zero_and_fences_the_old() -> None:
    state = _state()
    _take(state, _header(0, 4), 0)
    assert _refused(state, _header(4, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    _take(state, _header(0, epoch=1), 4)
    assert _refused(state, _header(4)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.producers[9].producer_epoch == 1


def test_a_repeat_in_a_new_epoch_is_not_taken_for_one_of_the_old() -> None:
    state = _state()
    _take(state, _header(0), 0)
    _take(state, _header(0, epoch=1), 1)
    duplicate = state.check(_header(0, epoch=1), 99)
    assert duplicate is not None
    assert duplicate.first_offset == 1


def test_silent_producers_are_forgotten() -> None:
    state = _state()
    _take(state, _header(0, timestamp=500), 0)
    state.expire(1499)
    assert 9 in state.producers
    state.expire(1500)
    assert 9 not in state.producers


def test_a_producer_in_a_transaction_is_not_forgotten() -> None:
    state = _state()
    _write(state, 0, 0)
    state.expire(10_000_000)
    assert 9 in state.producers
    _end(state, 1, ControlType.ABORT)
    state.expire(10_000_000)
    assert 9 not in state.producers


# Transactions


def _guard(
    state: ProducerState, sequence: int = 0, *, epoch: int = 0, bumps: bool = False
) -> VerificationGuard | None:
    return state.begin_verification(
        9, epoch, sequence, supports_epoch_bump=bumps, now_ms=50, offset=99
    )


def _write(
    state: ProducerState, sequence: int, offset: int, *, epoch: int = 0, bumps: bool = False
) -> None:
    header = _header(sequence, epoch=epoch, is_transactional=True)
    guard = _guard(state, sequence, epoch=epoch, bumps=bumps)
    assert state.check(header, offset, guard) is None
    state.update(header, offset)


def _marker(kind: ControlType, *, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    return build_end_txn_marker(
        kind,
        offset=0,
        producer_id=9,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=60,
    )


def _end(
    state: ProducerState,
    offset: int,
    kind: ControlType = ControlType.COMMIT,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
) -> EndedTransaction | None:
    state.check_marker(9, epoch, coordinator_epoch, version, offset)
    batch = _marker(kind, epoch=epoch, coordinator_epoch=coordinator_epoch)
    marker = parse_end_txn_marker(batch)
    assert marker is not None
    return state.end_transaction(parse_header(batch), marker, offset)


def _marker_refused(state: ProducerState, **marker: int) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        _end(state, 99, **marker)  # type: ignore[arg-type]
    return caught.value.code


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker() -> None:
    state = _state()
    _write(state, 0, 10)
    _write(state, 1, 11)
    assert state.transactions.first_unstable_offset == 10
    assert state.has_open_transaction(9, 0)
    assert _end(state, 12, ControlType.ABORT) == EndedTransaction(9, 10, 12, False, 13)
    assert not state.has_open_transaction(9, 0)
    state.transactions.replicated_to(13)
    assert state.transactions.first_unstable_offset is None


def test_a_marker_where_nothing_is_open_ends_nothing() -> None:
    state = _state()
    assert _end(state, 0, epoch=3, coordinator_epoch=5) is None
    entry = state.producers[9]
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (3, 5, 60)


def test_a_transaction_that_the_coordinator_was_not_asked_for_is_not_begun() -> None:
    state = _state()
    header = _header(0, is_transactional=True)
    assert _refused(state, header) is ErrorCode.INVALID_TXN_STATE
    _write(state, 0, 0)
    assert state.check(_header(1, is_transactional=True), 1) is None  # Open: nothing to ask.
    _end(state, 1)
    assert _refused(state, _header(1, is_transactional=True)) is ErrorCode.INVALID_TXN_STATE


def test_with_verification_switched_off_it_is_begun() -> None:
    config = ProducerStateConfig(is_verification_enabled=False)
    state = ProducerState(TopicPartition("t", 0), config)
    _take(state, _header(0, is_transactional=True), 0)
    assert state.transactions.first_unstable_offset == 0


def test_a_marker_makes_the_guard_before_it_void() -> None:
    state = _state()
    guard = _guard(state)
    _end(state, 0, ControlType.ABORT)
    with pytest.raises(KafkaError) as caught:
        state.check(_header(0, is_transactional=True), 1, guard)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    # Nor does the next transaction's guard make it good again.
    assert _guard(state) is not guard


def test_the_bumping_marker_leaves_the_guard_of_the_next_transaction() -> None:
    """Version 2: the producer is told of its new epoch before the markers are written."""
    state = _state()
    _write(state, 0, 0, bumps=True)
    guard = _guard(state, epoch=1, bumps=True)
    _end(state, 1, epoch=1, version=2)
    header = _header(0, epoch=1, is_transactional=True)
    assert state.check(header, 2, guard) is None


def test_a_guard_is_for_one_transaction() -> None:
    state = _state()
    guard = _guard(state)
    header = _header(0, is_transactional=True)
    assert state.check(header, 0, guard) is None
    state.update(header, 0)
    _end(state, 1)
    with pytest.raises(KafkaError) as caught:
        state.check(_header(1, is_transactional=True), 2, guard)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_guards_that_were_never_used_are_forgotten() -> None:
    state = _state()
    guard = _guard(state)
    state.expire(1049)
    assert _guard(state) is guard
    state.expire(1050)
    assert _guard(state) is not guard


def test_an_open_transaction_needs_no_verification_in_its_epoch() -> None:
    state = _state()
    _write(state, 0, 0, epoch=1)
    assert _guard(state, 1, epoch=1) is None
    assert _guard(state, 0, epoch=2) is not None
    with pytest.raises(KafkaError) as caught:
        _guard(state, 0, epoch=0)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_of_batches_that_wait_for_the_coordinator_the_lowest_comes_first() -> None:
    state = _state()
    _guard(state, 1)
    guard = _guard(state, 0)
    later, earlier = (_header(n, is_transactional=True) for n in (1, 0))
    with pytest.raises(KafkaError) as caught:
        state.check(later, 0, guard)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(earlier, 0, guard) is None
    state.update(earlier, 0)
    assert state.check(later, 1) is None


def test_since_version_2_the_first_batch_of_a_transaction_has_sequence_0() -> None:
    state = _state()
    guard = _guard(state, 3, bumps=True)
    with pytest.raises(KafkaError) as caught:
        state.check(_header(3, is_transactional=True), 0, guard)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    # Before it, one whose earlier batches were deleted may go on (KIP-360).
    state = _state()
    assert state.check(_header(3, is_transactional=True), 0, _guard(state, 3)) is None


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    state = _state()
    _write(state, 0, 0)
    assert _refused(state, _header(1)) is ErrorCode.INVALID_TXN_STATE


def test_a_repeat_is_answered_also_after_its_transaction_has_ended() -> None:
    state = _state()
    _write(state, 0, 10)
    _end(state, 11)
    duplicate = state.check(_header(0, is_transactional=True), 12)
    assert duplicate is not None
    assert duplicate.first_offset == 10


def test_sequences_go_on_after_a_marker_of_the_same_epoch() -> None:
    state = _state()
    _write(state, 0, 0)
    _end(state, 1)
    guard = _guard(state, 2)
    with pytest.raises(KafkaError) as caught:
        state.check(_header(2, is_transactional=True), 2, guard)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    state = _state()
    _write(state, 0, 0)
    _end(state, 1)
    _write(state, 1, 2)


def test_after_a_marker_of_a_new_epoch_sequences_begin_at_0() -> None:
    state = _state()
    _write(state, 0, 0)
    _end(state, 1, epoch=1, version=2)
    guard = _guard(state, 0, epoch=1)
    assert _refused(state, _header(1, is_transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(_header(0, epoch=1, is_transactional=True), 2, guard) is None


def test_the_transaction_of_an_older_epoch_goes_on_in_the_next() -> None:
    """The coordinator ends it; until then both are one, as in Kafka."""
    state = _state()
    _write(state, 0, 10)
    _write(state, 0, 11, epoch=1)
    assert state.transactions.first_unstable_offset == 10
    assert _end(state, 12, epoch=1) == EndedTransaction(9, 10, 12, True, 13)


def test_an_old_epoch_ends_nothing() -> None:
    state = _state()
    _write(state, 0, 0, epoch=2)
    assert _marker_refused(state, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.has_open_transaction(9, 2)


def test_an_old_coordinator_ends_nothing() -> None:
    state = _state()
    _end(state, 0, coordinator_epoch=5)
    _write(state, 0, 1)
    code = _marker_refused(state, coordinator_epoch=4)
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert _end(state, 2, coordinator_epoch=5) is not None


def test_since_version_2_a_marker_is_of_a_higher_epoch_than_what_it_ends() -> None:
    state = _state()
    _write(state, 0, 0, epoch=3)
    assert _marker_refused(state, epoch=3, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert _end(state, 1, epoch=4, version=2) is not None
    # Once more, since its answer was lost: nothing is open, it does no harm.
    assert _end(state, 2, epoch=4, version=2) is None


def test_the_last_epoch_ends_itself() -> None:
    """There is none above it; its producer gets another id."""
    state = _state()
    _write(state, 0, 0, epoch=0x7FFF)
    assert _end(state, 1, epoch=0x7FFF, version=2) is not None


def test_a_coordinators_batches_have_no_sequence() -> None:
    """Offsets that are committed within a transaction."""
    state = _state()
    header = _header(-1, 2, is_transactional=True)
    assert state.check(header, 0, _guard(state, -1)) is None
    state.update(header, 0)
    assert state.producers[9].last_sequence == -1
    assert state.check(_header(-1, is_transactional=True), 2) is None
    state.update(_header(-1, is_transactional=True), 2)
    _end(state, 3, epoch=1)
    assert _refused(state, _header(-1, is_transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_the_log_holds_is_not_questioned() -> None:
    state = _state()
    data = build_batch(
        [Record(5, 50, None, b"v")],
        producer_id=9,
        producer_epoch=3,
        base_sequence=7,
        is_transactional=True,
    )
    assert state.replay(parse_header(data), memoryview(data)) is None
    assert state.transactions.first_unstable_offset == 5
    marker = build_end_txn_marker(
        ControlType.ABORT,
        offset=6,
        producer_id=9,
        producer_epoch=4,
        coordinator_epoch=77,
        timestamp=60,
    )
    ended = state.replay(parse_header(marker), memoryview(marker))
    assert ended == EndedTransaction(9, 5, 6, False, 7)
    entry = state.producers[9]
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (4, 77, 60)
    assert state.check(_header(0, epoch=4), 7) is None


def test_a_control_batch_that_says_nothing_ends_nothing() -> None:
    """A cleaner leaves the batch without its record; another type is from a version to come."""
    state = _state()
    _write(state, 0, 0)
    empty = bytearray(_marker(ControlType.COMMIT)[:HEADER_BYTES])
    struct.pack_into(">i", empty, LENGTH_AT, HEADER_BYTES - LOG_OVERHEAD_BYTES)
    struct.pack_into(">i", empty, RECORD_COUNT_AT, 0)
    assert state.replay(parse_header(empty), memoryview(empty)) is None
    unknown = build_batch(
        [Record(1, 50, b"\x00\x00\x00\x09", b"\x00\x00\x00\x00\x00\x00")],
        producer_id=9,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    assert state.replay(parse_header(unknown), memoryview(unknown)) is None
    assert state.has_open_transaction(9, 0)


def test_a_snapshot_brings_back_open_transactions() -> None:
    state = _state()
    _write(state, 0, 10)
    entries = list(state.producers.values())
    silent = ProducerEntry(10, 0)
    state = _state()
    _guard(state)
    state.reset([*entries, silent], now_ms=10_000)
    assert list(state.producers) == [9]
    assert state.transactions.first_unstable_offset == 10
    assert state.has_open_transaction(9, 0)


def test_what_is_verified_takes_no_more_than_so_much_memory() -> None:
    """Producers that do not exist can ask as often as they like."""
    state = _state()
    first = _guard(state)
    for producer_id in range(1000, 1000 + VERIFICATION_COUNT_MAX):
        state.begin_verification(producer_id, 0, 0, supports_epoch_bump=True, now_ms=50, offset=99)
    assert _guard(state) is not first, "the oldest is forgotten"
