from __future__ import annotations

import random
import struct

import pytest

from ottla.storage.index_search import count_below, read_page
from ottla.testing.disk import SimulatedDisk

ENTRY = struct.Struct(">IQ")


def entries_of(values: list[int]) -> bytes:
    return b"".join(ENTRY.pack(7, value) for value in values)


@pytest.mark.parametrize(
    ("values", "limit", "count"),
    [
        ([], 5, 0),
        ([5], 5, 0),
        ([5], 6, 1),
        ([1, 3, 5, 7], 0, 0),
        ([1, 3, 5, 7], 4, 2),
        ([1, 3, 5, 7], 5, 2),
        ([1, 3, 5, 7], 100, 4),
    ],
)
def test_entries_below_a_limit_are_counted(values: list[int], limit: int, count: int) -> None:
    assert count_below(entries_of(values), ENTRY, 1, limit) == count


@pytest.mark.parametrize("entry_count", [0, 1, 341, 342, 5000])
def test_a_page_of_a_file_has_the_entries_on_both_sides_of_a_limit(entry_count: int) -> None:
    values = list(range(10, 10 * entry_count + 1, 10))
    content = entries_of(values)
    disk = SimulatedDisk(random.Random(0), now_ms=lambda: 0)
    disk.make_folders("/data")
    file = disk.open("/data/index", create=True)
    file.write_at(0, (content,))
    for limit in (0, 10, 11, 5 * entry_count, 10 * entry_count, 10 * entry_count + 1):
        page = read_page(file, len(content), ENTRY, 1, limit)
        assert len(page) <= 4096
        found = [value for _, value in ENTRY.iter_unpack(page)]
        below = [value for value in values if value < limit]
        assert not below or below[-1] in found
        assert not values[len(below) :] or values[len(below)] in found
