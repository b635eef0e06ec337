from __future__ import annotations

import struct

from ottla.config.topic import TopicConfig
from ottla.storage.log import Log
from tests.unit.storage.support import Machine

FIRST = "/data/t-0/00000000000000000000"


def _log(machine: Machine) -> tuple[Log, int]:
    """Ten batches of two records with growing timestamps, and the size of one."""
    log = machine.log()
    for number in range(10):
        machine.append(log, count=2, timestamp=1000 + number)
    return log, log.size_bytes // 10


def test_an_index_entry_follows_each_interval() -> None:
    """The last offset of the batch that comes after more than `index.interval.bytes`, and where
    it begins; next to it the largest timestamp so far and the last offset of its batch."""
    machine = Machine(TopicConfig(index_interval_bytes=200))
    _, size = _log(machine)
    assert 2 * size <= 200 < 3 * size
    machine.stop()
    offsets = list(struct.iter_unpack(">II", machine.disk.read_file(f"{FIRST}.index")))
    assert offsets == [(7, 3 * size), (13, 6 * size), (19, 9 * size)]
    times = list(struct.iter_unpack(">qI", machine.disk.read_file(f"{FIRST}.timeindex")))
    assert times == [(1003, 7), (1006, 13), (1009, 19)]


def test_a_rolled_segment_ends_its_time_index_with_its_largest_timestamp() -> None:
    machine = Machine()
    log, _ = _log(machine)
    assert machine.disk.size(f"{FIRST}.timeindex") == 0
    log.roll()
    times = list(struct.iter_unpack(">qI", machine.disk.read_file(f"{FIRST}.timeindex")))
    assert times == [(1009, 19)]
    assert machine.disk.size(f"{FIRST}.index") == 0


def test_index_entries_go_to_their_files_in_passing() -> None:
    machine = Machine(TopicConfig(index_interval_bytes=0))
    log = machine.log()
    for _ in range(600):
        machine.append(log)
    assert machine.disk.size(f"{FIRST}.index") == 4096
    machine.stop()
    assert machine.disk.size(f"{FIRST}.index") == 599 * 8


def test_truncation_cuts_the_index_files_too() -> None:
    machine = Machine(TopicConfig(index_interval_bytes=0))
    log, size = _log(machine)
    machine.restart()
    log = machine.log()
    log.truncate_to(8)
    assert machine.disk.size(f"{FIRST}.log") == 4 * size
    assert machine.disk.size(f"{FIRST}.index") == 3 * 8
    assert log.segments[-1].largest() == (1003, 7)


def test_a_follower_takes_in_many_batches_as_one_after_another() -> None:
    config = TopicConfig(index_interval_bytes=200)
    machine, follower = Machine(config), Machine(config)
    leader = machine.log()
    for number in range(30):  # In which the largest timestamp is not the last.
        machine.append(leader, count=2, timestamp=1000 + number * 7 % 11)
    log = follower.log()
    content = machine.disk.read_file(f"{FIRST}.log")
    assert log.append_as_follower(memoryview(content)) == len(content)
    for offset in (0, 31, 59):
        assert log.segments[-1].locate(offset) == leader.segments[-1].locate(offset)
    assert log.segments[-1].largest() == leader.segments[-1].largest()
    machine.stop()
    follower.stop()
    for suffix in ("log", "index", "timeindex"):
        content = machine.disk.read_file(f"{FIRST}.{suffix}")
        assert follower.disk.read_file(f"{FIRST}.{suffix}") == content, suffix
