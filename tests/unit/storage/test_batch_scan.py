from __future__ import annotations

import random

import pytest

from ottla.kernel.disk import File
from ottla.records.builder import build_batch
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record
from ottla.storage.batch_scan import Cold, find_batch, scan_batches, scan_valid_batches
from ottla.storage.errors import CorruptFile
from ottla.testing.disk import SimulatedDisk

# Base offsets and sizes of values: some larger than what one read takes.
BATCHES = [(0, 10), (3, 20_000), (4, 5), (10, 3_000_000), (20, 1), (21, 9_000)]


def _file() -> tuple[SimulatedDisk, File, list[int]]:
    disk = SimulatedDisk(random.Random(0))
    file = disk.open("/log", create=True)
    positions = []
    for base_offset, size_bytes in BATCHES:
        positions.append(file.size())
        record = Record(base_offset, 0, None, bytes(size_bytes))
        file.write_at(file.size(), [build_batch([record], base_offset=base_offset)])
    return disk, file, positions


@pytest.mark.parametrize(
    ("offset", "number"), [(0, 0), (1, 1), (3, 1), (4, 2), (5, 3), (10, 3), (11, 4), (21, 5)]
)
def test_find_batch(offset: int, number: int) -> None:
    _, file, positions = _file()
    assert find_batch(file, 0, file.size(), offset) == positions[number]


def test_find_batch_beyond_the_end() -> None:
    _, file, _ = _file()
    assert find_batch(file, 0, file.size(), 22) is None
    assert find_batch(file, 0, 0, 0) is None


def test_find_batch_does_not_wait_unless_it_may() -> None:
    disk, file, positions = _file()
    disk.evict("/log")
    assert isinstance(find_batch(file, 0, file.size(), 4), Cold)
    assert find_batch(file, 0, file.size(), 4, may_wait=True) == positions[2]


def test_find_batch_is_not_led_in_circles() -> None:
    _, file, _ = _file()
    file.write_at(8, [b"\0\0\0\0"])
    with pytest.raises(CorruptRecord):
        find_batch(file, 0, file.size(), 4)


@pytest.mark.parametrize("headers_only", [True, False])
def test_scan_batches(headers_only: bool) -> None:
    _, file, positions = _file()
    found = list(scan_batches(file, 0, file.size(), headers_only=headers_only))
    assert [batch.position for batch in found] == positions
    assert [batch.header.base_offset for batch in found] == [base for base, _ in BATCHES]
    for batch in found:
        expected = 61 if headers_only else batch.header.size_bytes
        assert batch.content == file.read_at(batch.position, expected)


def test_scan_batches_refuses_what_is_no_batch() -> None:
    _, file, positions = _file()
    file.write_at(positions[2] + 16, [b"\7"])
    with pytest.raises(CorruptFile):
        list(scan_batches(file, 0, file.size()))


def test_all_of_a_sound_file_is_valid() -> None:
    _, file, positions = _file()
    found = [batch.position for batch in scan_valid_batches(file, file.size(), 0)]
    assert found == positions


@pytest.mark.parametrize("at", [0, 8, 12 + 4, 17, 21, 70])
def test_validity_ends_with_the_first_damage(at: int) -> None:
    """The leader epoch alone is under no check: it may be anything."""
    _, file, positions = _file()
    byte = file.read_at(positions[3] + at, 1)[0]
    file.write_at(positions[3] + at, [bytes([byte ^ 0x80])])
    found = [batch.position for batch in scan_valid_batches(file, file.size(), 0)]
    assert found == positions[:3]


def test_validity_ends_where_offsets_go_back() -> None:
    _, file, positions = _file()
    assert list(scan_valid_batches(file, file.size(), 1)) == []
    file.write_at(positions[4], [(9).to_bytes(8, "big")])
    found = [batch.position for batch in scan_valid_batches(file, file.size(), 0)]
    assert found == positions[:4]


def test_a_cut_anywhere_leaves_the_whole_batches_before_it() -> None:
    _, file, positions = _file()
    size_bytes = file.size()
    for cut in (1, 60, 61, size_bytes - positions[5], size_bytes - positions[5] + 1):
        found = [batch.position for batch in scan_valid_batches(file, size_bytes - cut, 0)]
        assert (
            found
            == [position for position in positions if position < size_bytes - cut][: len(found)]
        )
        assert len(found) == (5 if cut <= size_bytes - positions[5] else 4)


def test_warming_reads_everything() -> None:
    disk, file, _ = _file()
    disk.evict("/log")
    Cold(file, 0, file.size()).warm()
    assert file.is_cached(0, file.size())
