from __future__ import annotations

from ottla.records.batch import BatchHeader, parse_header
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.storage.producer_entry import BatchMetadata, ProducerEntry


def _header(sequence: int, count: int = 1) -> BatchHeader:
    records = [Record(number, 1, None, b"v") for number in range(count)]
    return parse_header(
        build_batch(records, producer_id=1, producer_epoch=0, base_sequence=sequence)
    )


def _entry(*batches: BatchMetadata, epoch: int = 0) -> ProducerEntry:
    entry = ProducerEntry(1)
    for batch in batches:
        entry.add(epoch, batch)
    return entry


def test_the_last_five_batches_are_kept() -> None:
    entry = _entry(*(BatchMetadata(number, 10 + number, 0, 50) for number in range(6)))
    assert (entry.last_sequence, entry.last_offset, entry.next_sequence) == (5, 15, 6)
    assert entry.find_duplicate(_header(0)) is None
    assert entry.find_duplicate(_header(1)) == BatchMetadata(1, 11, 0, 50)
    assert entry.find_duplicate(_header(1, count=2)) is None


def test_sequences_wrap_around() -> None:
    batch = BatchMetadata(last_sequence=1, last_offset=12, offset_delta=2, timestamp=5)
    assert (batch.first_sequence, batch.first_offset) == (2**31 - 1, 10)
    entry = _entry(BatchMetadata(2**31 - 1, 9, 0, 5), batch)
    assert entry.next_sequence == 2


def test_a_batch_of_a_new_epoch_ends_the_old_one() -> None:
    entry = _entry(BatchMetadata(4, 14, 0, 50))
    entry.add(1, BatchMetadata(0, 15, 0, 60))
    assert (entry.producer_epoch, entry.next_sequence, len(entry.batches)) == (1, 1, 1)


def test_a_marker_of_the_same_epoch_lets_sequences_go_on() -> None:
    entry = _entry(BatchMetadata(4, 14, 0, 50))
    entry.current_txn_first_offset = 14
    entry.end_transaction(0, 3, 70)
    assert entry.current_txn_first_offset is None
    assert (entry.coordinator_epoch, entry.last_timestamp, entry.next_sequence) == (3, 70, 5)


def test_a_marker_of_a_new_epoch_lets_them_begin_anew() -> None:
    entry = _entry(BatchMetadata(4, 14, 0, 50))
    entry.end_transaction(1, 3, 70)
    assert (entry.producer_epoch, entry.next_sequence, entry.last_sequence) == (1, 0, -1)
