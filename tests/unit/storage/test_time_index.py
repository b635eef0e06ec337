from __future__ import annotations

import random

import pytest

from ottla.storage.time_index import NO_ENTRY, TimeIndex, find_entry, is_sound, read_last_entry
from ottla.testing.disk import SimulatedDisk

ENTRIES = [(1000, 3), (2000, 9), (2001, 12)]


def _index(entries: list[tuple[int, int]]) -> TimeIndex:
    index = TimeIndex()
    for entry in entries:
        index.maybe_append(*entry)
    return index


def test_entries_are_twelve_bytes_big_endian() -> None:
    assert bytes(_index([(0x0102, 5)]).entries) == bytes([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 5])


def test_only_a_larger_timestamp_makes_an_entry() -> None:
    index = _index([*ENTRIES, (2001, 15), (5, 20)])
    assert len(index) == 3
    assert index.last_entry() == (2001, 12)


@pytest.mark.parametrize(
    ("timestamp", "entry"),
    [(999, NO_ENTRY), (1000, (1000, 3)), (1999, (1000, 3)), (2000, (2000, 9)), (9999, (2001, 12))],
)
def test_entry_before(timestamp: int, entry: tuple[int, int]) -> None:
    assert _index(ENTRIES).entry_before(timestamp) == entry


def test_truncate_forgets_the_largest_timestamp_with_its_entry() -> None:
    index = _index(ENTRIES)
    index.truncate(9)
    assert index.last_entry() == (1000, 3)
    index.maybe_append(1500, 8)
    assert index.last_entry() == (1500, 8)


def test_a_file_is_searched_as_memory_is() -> None:
    index = _index([(number * 7, number) for number in range(1, 2000)])
    file = SimulatedDisk(random.Random(0)).open("/times", create=True)
    assert read_last_entry(file) == NO_ENTRY
    file.write_at(0, [bytes(index.entries)])
    for timestamp in [0, 6, 7, 8, 5000, 13_986, 13_993, 99_999]:
        assert find_entry(file, file.size(), timestamp) == index.entry_before(timestamp)
    assert read_last_entry(file) == (1999 * 7, 1999)


def test_soundness() -> None:
    content = bytes(_index(ENTRIES).entries)
    assert is_sound(content)
    assert is_sound(b"")
    assert not is_sound(content[:-1])
    assert not is_sound(content + bytes(12))
