from __future__ import annotations

from ottla.config.topic import TopicConfig
from tests.unit.storage.support import Machine, offsets_in


def test_a_segment_is_rolled_by_size() -> None:
    machine = Machine(TopicConfig(segment_bytes=250))
    log = machine.log()
    for _ in range(7):
        machine.append(log, count=2)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8, 12]
    assert offsets_in(log) == list(range(14))


def test_a_segment_is_rolled_by_the_time_between_its_first_and_the_new_record() -> None:
    machine = Machine(TopicConfig(segment_ms=1000))
    log = machine.log()
    for timestamp in (5000, 6000, 6001, 6500):
        machine.append(log, timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_without_timestamps_a_segment_is_rolled_by_its_age() -> None:
    machine = Machine(TopicConfig(segment_ms=1000))
    log = machine.log()
    machine.append(log, timestamp=-1)
    machine.wait(0.9)
    machine.append(log, timestamp=-1)
    machine.wait(0.2)
    machine.append(log, timestamp=-1)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_is_rolled_when_an_index_is_full() -> None:
    machine = Machine(TopicConfig(segment_index_bytes=24, index_interval_bytes=0))
    log = machine.log()
    for _ in range(10):
        machine.append(log)
        machine.wait(0.01)
    assert len(log.segments) > 2
    assert offsets_in(log) == list(range(10))
