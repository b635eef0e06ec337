from __future__ import annotations

import random

import pytest

from ottla.storage.run_mark import RunMark, read_run_mark, write_run_mark
from ottla.testing.disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/d")
    return disk


def test_what_was_written_is_read(disk: SimulatedDisk) -> None:
    assert read_run_mark(disk, "/d") is None
    for mark in (RunMark(12, "a-b-c", 2049), RunMark(13, "d", -1)):
        write_run_mark(disk, "/d", mark)
        assert read_run_mark(disk, "/d") == mark


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0", b"[]", b'{"brokerEpoch":1}', b'{"brokerEpoch":null,"bootId":"b"}']
)
def test_what_cannot_be_read_proves_nothing(disk: SimulatedDisk, content: bytes) -> None:
    disk.replace_file("/d/.ottla_run", content)
    assert read_run_mark(disk, "/d") is None
