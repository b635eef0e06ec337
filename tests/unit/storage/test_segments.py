from __future__ import annotations

import itertools
import random

from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.records.batch import parse_header
from ottla.storage.segments import draw_roll_jitter_ms
from tests.unit.storage.support import Machine


def test_jitter_is_below_its_limit_and_below_segment_ms() -> None:
    rng = random.Random(0)
    assert draw_roll_jitter_ms(TopicConfig(segment_jitter_ms=0), rng) == 0
    drawn = {draw_roll_jitter_ms(TopicConfig(segment_jitter_ms=10), rng) for _ in range(300)}
    assert drawn == set(range(10))
    config = TopicConfig(segment_jitter_ms=1000, segment_ms=5)
    assert {draw_roll_jitter_ms(config, rng) for _ in range(100)} == set(range(5))


def test_segments_roll_at_different_times_with_jitter() -> None:
    machine = Machine(TopicConfig(segment_ms=1000, segment_jitter_ms=900))
    log = machine.log()
    for timestamp in range(0, 20_000, 10):
        machine.append(log, timestamp=timestamp)
    bases = [segment.base_offset for segment in log.segments]
    lengths = {after - before for before, after in itertools.pairwise(bases)}
    assert len(lengths) > 5
    assert max(lengths) <= 101


def test_a_read_goes_on_in_the_next_segment_when_the_rest_of_one_is_gone() -> None:
    machine = Machine(TopicConfig(cleanup_policy=("compact",)))
    log = machine.log()
    for offset in (0, 5, 9):
        batch = machine.batch(1)
        batch[0:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(batch))
        log.roll()
    for offset, base_offset in ((1, 5), (4, 5), (6, 9), (9, 9)):
        piece = log.read(offset, 1 << 20, max_offset=10, at_least_one=True)
        assert isinstance(piece, FileSlice)
        assert parse_header(piece.read()).base_offset == base_offset
    assert log.read(6, 1 << 20, max_offset=9, at_least_one=True) is None
