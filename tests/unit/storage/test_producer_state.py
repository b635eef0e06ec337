from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import BatchHeader, parse_header
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker
from ottla.records.record import Record
from ottla.storage.producer_state import ProducerState, ProducerStateConfig

SEQUENCE_MAX = 2**31 - 1


def _state() -> ProducerState:
    return ProducerState(TopicPartition("t", 0), ProducerStateConfig(expiration_ms=1000))


def _header(sequence: int, count: int = 1, *, epoch: int = 0, timestamp: int = 50) -> BatchHeader:
    return parse_header(
        build_batch(
            [Record(number, timestamp, None, b"v") for number in range(count)],
            producer_id=9,
            producer_epoch=epoch,
            base_sequence=sequence,
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
    _take(state, _header(0), 0)
    state.producers[9].current_txn_first_offset = 0
    state.expire(10_000_000)
    assert 9 in state.producers


def test_a_marker_in_the_log_ends_the_transaction() -> None:
    state = _state()
    data = build_batch(
        [Record(0, 50, None, b"v")],
        producer_id=9,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    state.replay(parse_header(data), memoryview(data))
    assert state.producers[9].current_txn_first_offset == 0
    marker = build_end_txn_marker(
        ControlType.COMMIT,
        offset=1,
        producer_id=9,
        producer_epoch=4,
        coordinator_epoch=77,
        timestamp=60,
    )
    state.replay(parse_header(marker), memoryview(marker))
    entry = state.producers[9]
    assert entry.current_txn_first_offset is None
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (4, 77, 60)
    assert state.check(_header(0, epoch=4), 2) is None
