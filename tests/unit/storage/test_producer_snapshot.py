from __future__ import annotations

import pytest

from ottla.storage.errors import CorruptFile
from ottla.storage.producer_entry import BatchMetadata, ProducerEntry
from ottla.storage.producer_snapshot import decode_snapshot, encode_snapshot

# What Kafka 4.3's DumpLogSegments prints of this one: producerId: 7 producerEpoch: 2
# coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 1000
# firstSequence: 3 lastSequence: 5 lastOffset: 42 offsetDelta: 2 timestamp: 1000
KAFKAS = bytes.fromhex(
    "0001 65232c91 00000001"
    "0000000000000007 0002 00000005 000000000000002a 00000002 00000000000003e8"
    "ffffffff ffffffffffffffff"
)


def _entry() -> ProducerEntry:
    entry = ProducerEntry(7, 2)
    entry.add(2, BatchMetadata(4, 40, 0, 900))
    entry.add(2, BatchMetadata(5, 42, 2, 1000))
    return entry


def test_the_bytes_are_kafkas() -> None:
    assert encode_snapshot([_entry()]) == KAFKAS


def test_the_last_batch_comes_back() -> None:
    (entry,) = decode_snapshot(KAFKAS)
    assert (entry.producer_id, entry.producer_epoch) == (7, 2)
    assert list(entry.batches) == [BatchMetadata(5, 42, 2, 1000)]
    assert entry.next_sequence == 6
    assert entry.last_timestamp == 1000
    assert entry.current_txn_first_offset is None


def test_an_open_transaction_and_no_batch_come_back() -> None:
    entry = ProducerEntry(8, 1)
    entry.current_txn_first_offset = 12
    entry.coordinator_epoch = 3
    entry.last_timestamp = 77
    (found,) = decode_snapshot(encode_snapshot([entry]))
    assert not found.batches
    assert (found.current_txn_first_offset, found.coordinator_epoch) == (12, 3)
    assert found.last_timestamp == 77


def test_no_producers() -> None:
    assert decode_snapshot(encode_snapshot([])) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        KAFKAS[:9],
        KAFKAS[:-1],
        KAFKAS + b"\0",
        b"\0\2" + KAFKAS[2:],
        KAFKAS[:20] + b"\xff" + KAFKAS[21:],
        bytes(len(KAFKAS)),
    ],
)
def test_damage_is_told(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode_snapshot(content)
