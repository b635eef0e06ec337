"""Leftovers of what a crash interrupted."""

from __future__ import annotations

import random

from ottla.config.topic import TopicConfig
from ottla.storage.recovery import tidy_folder
from ottla.testing.disk import SimulatedDisk
from tests.unit.storage.support import Machine, offsets_in


def _disk(*names: str) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/t-0")
    for name in names:
        disk.open(f"/t-0/{name}", create=True)
    return disk


def test_deleted_and_temporary_files_go() -> None:
    disk = _disk(
        "00000000000000000000.log",
        "00000000000000000000.log.deleted",
        "00000000000000000007.snapshot.tmp",
        "leader-epoch-checkpoint.tmp",
    )
    tidy_folder(disk, "/t-0")
    assert disk.list_folder("/t-0") == ["00000000000000000000.log"]


def test_an_unfinished_compaction_goes_with_its_swap_files() -> None:
    """KAFKA-6264: a swap file above an unfinished one belongs to a split that did not happen."""
    disk = _disk(
        "00000000000000000000.log",
        "00000000000000000005.log.cleaned",
        "00000000000000000005.index.cleaned",
        "00000000000000000009.log.swap",
    )
    assert tidy_folder(disk, "/t-0") == ["00000000000000000000.log"]


def test_a_finished_compaction_takes_the_place_of_what_it_covers() -> None:
    machine = Machine(TopicConfig(segment_bytes=200, index_interval_bytes=0))
    log = machine.log()
    for _ in range(6):
        machine.append(log, count=3)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
    machine.stop()
    folder = "/data/t-0"
    disk = machine.disk
    # One segment made of the first two, without their second and third batches.
    first = disk.read_file(f"{folder}/00000000000000000000.log")
    second = disk.read_file(f"{folder}/00000000000000000006.log")
    half = len(first) // 2
    disk.replace_file(f"{folder}/00000000000000000000.log.swap", first[:half] + second[half:])
    for suffix in ("index", "timeindex"):
        disk.replace_file(f"{folder}/00000000000000000000.{suffix}.swap", b"")
    machine.start()
    log = machine.log()
    assert [segment.base_offset for segment in log.segments] == [0, 12]
    assert offsets_in(log) == [0, 1, 2, 9, 10, 11, *range(12, 18)]
