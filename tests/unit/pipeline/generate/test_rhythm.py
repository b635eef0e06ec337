"""When events happen."""

from __future__ import annotations

from collections import Counter
from itertools import islice, takewhile

import pytest

from ottla.pipeline.generate.rhythm import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Rhythm,
    busyness,
)

START_MS = 1_767_225_600_000  # 2026-01-01T00:00Z


def times_until(end_ms: int, rate: float, seed: str = "s") -> list[int]:
    return list(takewhile(lambda ms: ms < end_ms, Rhythm(seed, rate, START_MS).times()))


def test_a_day_has_its_rhythm_and_its_mean_is_one() -> None:
    assert busyness(START_MS + 3 * HOUR_MS) == 0.4
    assert busyness(START_MS + 19 * HOUR_MS) == 1.5
    assert busyness(START_MS + HOUR_MS // 2) == pytest.approx(0.55)
    # The last hour leads to the next day's first.
    assert busyness(START_MS + 23 * HOUR_MS + HOUR_MS // 2) == pytest.approx(0.65)
    minutes = [busyness(START_MS + minute * MINUTE_MS) for minute in range(24 * 60)]
    assert sum(minutes) / len(minutes) == pytest.approx(1)


@pytest.mark.parametrize("rate", [0.1, 1, 2.5])
def test_the_rate_is_kept_over_a_day(rate: float) -> None:
    # Bursts lie where they lie on the slopes of the day, so it is not kept to the last event.
    assert len(times_until(START_MS + DAY_MS, rate)) == pytest.approx(rate * 86_400, rel=0.001)


def test_times_never_fall_and_begin_at_the_start() -> None:
    times = list(islice(Rhythm("s", 100, START_MS).times(), 5000))

    assert times == sorted(times)
    assert START_MS <= times[0] < START_MS + SECOND_MS


def test_one_minute_in_ten_is_a_burst() -> None:
    times = times_until(START_MS + HOUR_MS, 20)
    counts = Counter((ms - START_MS) // MINUTE_MS for ms in times)

    for first in range(0, 60, 10):
        busiest, *others = sorted((counts[first + n] for n in range(10)), reverse=True)
        # 3 : 7/9, but for the slope of the hour.
        assert busiest / (sum(others) / 9) == pytest.approx(27 / 7, rel=0.15)


def test_bursts_are_where_they_are_wherever_a_generator_starts() -> None:
    def busiest(start_ms: int) -> int:
        times = Rhythm("s", 20, start_ms).times()
        end_ms = START_MS + 20 * MINUTE_MS
        counts = Counter(ms // MINUTE_MS for ms in takewhile(lambda ms: ms < end_ms, times))
        second_block = START_MS // MINUTE_MS + 10
        return max(range(second_block, second_block + 10), key=lambda minute: counts[minute])

    assert busiest(START_MS) == busiest(START_MS + 7 * MINUTE_MS)


def test_the_seed_makes_the_times() -> None:
    def first(seed: str) -> list[int]:
        return list(islice(Rhythm(seed, 5, START_MS).times(), 50))

    assert first("a") == first("a")
    assert first("a") != first("b")
