from __future__ import annotations

import random
from itertools import pairwise

from ottla.testing.disk import SimulatedDisk
from ottla.testing.disk_pace import DiskPace
from ottla.testing.loop import VirtualLoop


def write_durations_s(seed: int) -> list[float]:
    loop = VirtualLoop()
    disk = SimulatedDisk(random.Random(0), pace=DiskPace(random.Random(seed), loop))
    file = disk.open("/a", create=True)
    durations_s = []
    for _ in range(300):
        began_s = loop.now_s
        file.write_at(0, [b"v"])
        durations_s.append(loop.now_s - began_s)
    loop.close()
    return durations_s


def test_writes_take_time_and_now_and_then_several_in_a_row_too_long() -> None:
    durations_s = write_durations_s(1)
    too_long = [duration_s > 0.05 for duration_s in durations_s]
    assert all(duration_s > 0 for duration_s in durations_s)
    assert 0 < sum(too_long) < len(too_long) / 2
    assert any(both == (True, True) for both in pairwise(too_long))
    assert durations_s == write_durations_s(1) != write_durations_s(2)


def test_what_only_looks_takes_none() -> None:
    loop = VirtualLoop()
    disk = SimulatedDisk(random.Random(0), pace=DiskPace(random.Random(0), loop))
    file = disk.open("/a", create=True)
    assert (file.size(), disk.list_folder("/"), loop.now_s) == (0, ["a"], 0)
    file.sync()
    assert loop.now_s > 0
    loop.close()
