from __future__ import annotations

import random

import pytest

from ottla.kernel.ids import TopicPartition
from ottla.storage.checkpoint import (
    format_checkpoint,
    format_offset,
    parse_offsets,
    read_offsets,
)
from ottla.storage.errors import CorruptFile
from ottla.testing.disk import SimulatedDisk

OFFSETS = {TopicPartition("a", 0): 12, TopicPartition("b.c-d", 7): 9_000_000_000}
LINES = [format_offset(at, offset) for at, offset in OFFSETS.items()]


def test_the_format_is_kafkas() -> None:
    assert format_checkpoint(LINES) == b"0\n2\na 0 12\nb.c-d 7 9000000000\n"


def test_there_and_back() -> None:
    assert parse_offsets(format_checkpoint(LINES)) == OFFSETS
    assert parse_offsets(format_checkpoint([])) == {}


def test_an_empty_file_has_no_entries() -> None:
    assert parse_offsets(b"") == {}
    assert parse_offsets(b"0\n") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n2\na 0 12\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na 0 1 2\n",
        b"\xff\xfe\n0\n",
        b"0\nmany\n",
        b"0\n1\na -1 12\n",
        b"0\n1\na 0 -12\n",
    ],
)
def test_damage_is_told(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_offsets(content)


def test_a_missing_file_has_no_entries() -> None:
    disk = SimulatedDisk(random.Random(0))
    assert read_offsets(disk, "/none") == {}
    disk.replace_file("/some", format_checkpoint(LINES))
    assert read_offsets(disk, "/some") == OFFSETS
