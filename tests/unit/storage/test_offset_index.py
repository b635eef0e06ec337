from __future__ import annotations

import random

import pytest

from ottla.storage.offset_index import OffsetIndex, find_offset_from, find_position, is_sound
from ottla.testing.disk import SimulatedDisk

ENTRIES = [(3, 100), (7, 250), (20, 900)]


def _index(entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    return index


def test_entries_are_eight_bytes_big_endian() -> None:
    assert bytes(_index([(1, 0x0203)]).entries) == bytes([0, 0, 0, 1, 0, 0, 2, 3])


@pytest.mark.parametrize(
    ("relative_offset", "position"),
    [(0, 0), (2, 0), (3, 100), (6, 100), (7, 250), (19, 250), (20, 900), (2**31 - 1, 900)],
)
def test_position_before(relative_offset: int, position: int) -> None:
    assert _index(ENTRIES).position_before(relative_offset) == position


def test_an_empty_index_says_the_beginning() -> None:
    assert OffsetIndex().position_before(5) == 0
    assert OffsetIndex().last_entry() == (0, 0)


@pytest.mark.parametrize(("offset", "left"), [(21, 3), (20, 2), (8, 2), (7, 1), (3, 0), (0, 0)])
def test_truncate_drops_entries_at_or_above(offset: int, left: int) -> None:
    index = _index(ENTRIES)
    index.written_bytes = 24
    index.truncate(offset)
    assert bytes(index.entries) == bytes(_index(ENTRIES[:left]).entries)
    assert index.written_bytes == left * 8


def test_a_file_is_searched_as_memory_is() -> None:
    index = _index([(number * 3, number * 10) for number in range(1, 3000)])
    disk = SimulatedDisk(random.Random(0))
    file = disk.open("/index", create=True)
    file.write_at(0, [bytes(index.entries)])
    for offset in [0, 1, 3, 4, 1500, 1501, 4500, 8996, 8997, 8998, 100_000]:
        expected = index.position_before(offset)
        assert find_position(file, file.size(), offset) == expected


@pytest.mark.parametrize(
    ("entries", "sound"),
    [
        ([], True),
        (ENTRIES, True),
        ([(3, 100), (3, 200)], False),
        ([(3, 100), (4, 100)], False),
        ([(3, 1000)], False),
        ([(3, 100), (0, 0)], False),
    ],
)
def test_soundness(entries: list[tuple[int, int]], sound: bool) -> None:
    assert is_sound(bytes(_index(entries).entries), 1000) is sound


def test_half_an_entry_is_not_sound() -> None:
    assert not is_sound(b"\0\0\0\1", 1000)


def test_the_offset_after_a_position_is_that_of_the_next_entry() -> None:
    index = OffsetIndex()
    for number in range(1, 2000):
        index.append(number * 10, number * 100)
    disk = SimulatedDisk(random.Random(0), now_ms=lambda: 0)
    file = disk.open("/index", create=True)
    file.write_at(0, (bytes(index.entries),))
    for position, expected in (
        (0, 10),
        (100, 10),
        (101, 20),
        (77_700, 7_770),
        (77_701, 7_780),
        (199_900, 19_990),
        (199_901, None),
    ):
        assert index.offset_from(position) == expected
        assert find_offset_from(file, file.size(), position) == expected
    assert OffsetIndex().offset_from(0) is None
