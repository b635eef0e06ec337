from __future__ import annotations

import random

import pytest

from ottla.storage.batch_scan import Cold
from ottla.storage.errors import CorruptFile
from ottla.storage.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    Collected,
    TransactionIndex,
    collect_in_file,
    decode,
)
from ottla.testing.disk import SimulatedDisk

# producer id, first offset, offset of the marker, last stable offset after it
FIRST = AbortedTransaction(7, 100, 110, 105)
SECOND = AbortedTransaction(8, 105, 120, 115)
THIRD = AbortedTransaction(7, 115, 130, 131)


def _index(*aborted: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex()
    for each in aborted:
        index.append(each)
    return index


def test_an_entry_is_as_kafka_writes_it() -> None:
    assert bytes(_index(AbortedTransaction(1, 2, 3, 4)).entries) == bytes.fromhex(
        "0000 0000000000000001 0000000000000002 0000000000000003 0000000000000004"
    )


def test_transactions_that_overlap_the_range_are_collected() -> None:
    index = _index(FIRST, SECOND, THIRD)
    assert index.collect(100, 131).aborted == [FIRST, SECOND, THIRD]
    assert index.collect(110, 120).aborted == [FIRST, SECOND, THIRD]
    assert index.collect(111, 115).aborted == [SECOND]
    assert index.collect(121, 131).aborted == [THIRD]
    assert index.collect(131, 200).aborted == []


def test_it_is_complete_when_everything_in_the_range_was_decided() -> None:
    index = _index(FIRST, SECOND, THIRD)
    assert index.collect(100, 105) == Collected([FIRST], True)
    assert index.collect(100, 115) == Collected([FIRST, SECOND], True)
    assert index.collect(100, 132) == Collected([FIRST, SECOND, THIRD], False)


def test_truncation_drops_what_was_ended_at_or_after_the_offset() -> None:
    index = _index(FIRST, SECOND, THIRD)
    index.written_bytes = 3 * ENTRY_BYTES
    index.truncate(121)
    assert decode(bytes(index.entries), 100) == [FIRST, SECOND]
    assert index.written_bytes == 2 * ENTRY_BYTES
    index.truncate(120)
    assert decode(bytes(index.entries), 100) == [FIRST]
    index.truncate(0)
    assert not index.entries


def test_a_long_index_is_searched_in_its_file() -> None:
    aborted = [AbortedTransaction(1, 10 * n, 10 * n + 5, 10 * n + 6) for n in range(1000)]
    disk = SimulatedDisk(random.Random(0), now_ms=lambda: 0)
    file = disk.open("/index", create=True)
    entries = _index(*aborted).entries
    file.write_at(0, (bytes(entries),))
    collected = collect_in_file(file, len(entries), 5000, 7000)
    assert isinstance(collected, Collected)
    assert collected.aborted == aborted[500:700]
    collected = collect_in_file(file, len(entries), 9_995, 20_000)
    assert collected == Collected(aborted[999:], False)
    disk.evict("/index")
    assert isinstance(collect_in_file(file, len(entries), 0, 1), Cold)


@pytest.mark.parametrize(
    "content",
    [
        bytes(_index(FIRST).entries)[:-1],
        b"\x00\x01" + bytes(_index(FIRST).entries)[2:],
        bytes(_index(SECOND, FIRST).entries),
        bytes(_index(AbortedTransaction(7, 10, 99, 100)).entries),
    ],
    ids=["torn", "of another version", "out of order", "before the segment"],
)
def test_what_no_segment_can_have_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode(content, base_offset=100)
