"""The check by DumpLogSegments finds what is wrong: else its silence would mean nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.records.builder import build_batch
from ottla.records.record import Record
from tests.support.dump_log import assert_accepted, complaints, segment_files
from tests.support.need import need_apache_kafka

TIMESTAMP_MS = 1_700_000_000_000


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    need_apache_kafka()
    return tmp_path


def write_partition(data_dir: Path, name: str) -> Path:
    """Two batches, an index entry for the second, and both times. Returns the path of its files
    without their endings."""
    (data_dir / name).mkdir()
    segment = data_dir / name / f"{0:020}"
    batches = [
        build_batch([Record(offset, TIMESTAMP_MS + offset, None, b"v", ())], leader_epoch=0)
        for offset in (0, 1)
    ]
    segment.with_suffix(".log").write_bytes(b"".join(batches))
    segment.with_suffix(".index").write_bytes(struct.pack(">ii", 1, len(batches[0])))
    times = [struct.pack(">qi", TIMESTAMP_MS + offset, offset) for offset in (0, 1)]
    segment.with_suffix(".timeindex").write_bytes(b"".join(times))
    return segment


def test_good_files_are_accepted_and_counted(data_dir: Path) -> None:
    write_partition(data_dir, "good-0")
    assert assert_accepted([data_dir]) == 3


def test_each_damaged_file_is_named(data_dir: Path) -> None:
    torn = write_partition(data_dir, "torn-0").with_suffix(".log")
    torn.write_bytes(torn.read_bytes() + bytes(5))
    offset = write_partition(data_dir, "offset-0").with_suffix(".index")
    offset.write_bytes(struct.pack(">ii", 1, 0))
    time = write_partition(data_dir, "time-0").with_suffix(".timeindex")
    time.write_bytes(struct.pack(">qi", TIMESTAMP_MS + 1, 0))
    write_partition(data_dir, "good-0")
    found = "\n".join(complaints(segment_files(data_dir)))
    for damaged in (torn, offset, time):
        assert str(damaged) in found
    assert "good-0" not in found


def test_a_flipped_bit_is_found(data_dir: Path) -> None:
    log = write_partition(data_dir, "flipped-0").with_suffix(".log")
    content = bytearray(log.read_bytes())
    content[-2] ^= 1
    log.write_bytes(content)
    assert any("isvalid: false" in complaint for complaint in complaints(segment_files(data_dir)))


def test_half_an_index_entry_is_found(data_dir: Path) -> None:
    index = write_partition(data_dir, "half-0").with_suffix(".index")
    index.write_bytes(index.read_bytes() + bytes(3))
    assert any("is corrupt" in complaint for complaint in complaints(segment_files(data_dir)))


def test_deleted_and_foreign_files_are_left_out(tmp_path: Path) -> None:
    write_partition(tmp_path, "t-0.0123456789abcdef-delete")
    (tmp_path / "other.log").write_text("not a segment")
    assert segment_files(tmp_path) == []
