from __future__ import annotations

import random

from ottla.storage.producer_entry import ProducerEntry
from ottla.storage.producer_snapshot import encode_snapshot
from ottla.storage.snapshots import Snapshots
from ottla.testing.disk import SimulatedDisk


def _snapshots(*offsets: int) -> tuple[SimulatedDisk, Snapshots]:
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/t-0")
    for offset in offsets:
        content = encode_snapshot([ProducerEntry(offset, 0)])
        disk.replace_file(f"/t-0/{offset:020d}.snapshot", content)
    disk.open("/t-0/00000000000000000000.log", create=True)
    return disk, Snapshots.find(disk, "/t-0", disk.list_folder("/t-0"))


def _latest(snapshots: Snapshots, offset_max: int) -> tuple[int, int] | None:
    loaded = snapshots.load_latest(offset_max)
    return None if loaded is None else (loaded[0], loaded[1][0].producer_id)


def test_the_newest_not_above_the_offset_is_loaded() -> None:
    _, snapshots = _snapshots(5, 10, 20)
    assert snapshots.latest_offset == 20
    assert _latest(snapshots, 20) == (20, 20)
    assert _latest(snapshots, 19) == (10, 10)
    assert _latest(snapshots, 4) is None


def test_one_that_is_damaged_is_removed() -> None:
    disk, snapshots = _snapshots(5, 10)
    disk.replace_file(snapshots.path(10), b"damaged")
    assert _latest(snapshots, 99) == (5, 5)
    assert not disk.exists(snapshots.path(10))


def test_one_that_is_not_written_yet_is_had_from_memory() -> None:
    disk, snapshots = _snapshots(5)
    snapshots.add(30, encode_snapshot([ProducerEntry(30, 0)]))
    assert not disk.exists(snapshots.path(30))
    assert _latest(snapshots, 99) == (30, 30)
    snapshots.write(30)
    assert disk.exists(snapshots.path(30))
    assert _latest(snapshots, 99) == (30, 30)


def test_one_that_is_discarded_is_not_written_any_more() -> None:
    disk, snapshots = _snapshots()
    snapshots.add(30, b"content")
    assert snapshots.discard(30)
    assert not snapshots.discard(30)
    snapshots.write(30)
    assert not disk.exists(snapshots.path(30))


def test_what_lies_outside_the_log_goes() -> None:
    disk, snapshots = _snapshots(5, 10, 20, 30)
    snapshots.remove_outside(10, 20)
    assert snapshots.offsets == [10, 20]
    assert not disk.exists(snapshots.path(5))


def test_each_segment_keeps_its_own_and_the_newest_stays() -> None:
    disk, snapshots = _snapshots(5, 10, 15, 20, 25)
    snapshots.remove_strays([0, 10, 20])
    assert snapshots.offsets == [10, 20, 25]
    assert not disk.exists(snapshots.path(15))
