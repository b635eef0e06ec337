"""When events happen: more by day than by night, with a burst now and then."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ottla.pipeline.generate.chance import below

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# How busy each hour of a day (UTC) begins; between two hours it goes in a straight line. The
# mean is 1, so that the rate holds over a day.
_HOURS = (
    *(0.6, 0.5, 0.4, 0.4, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.3, 1.4),
    *(1.4, 1.3, 1.3, 1.2, 1.2, 1.2, 1.3, 1.5, 1.5, 1.3, 1.0, 0.7),
)
# One minute in each ten is a burst, and the other nine give up what it takes.
_BLOCK_MINUTES = 10
_BURST = 3.0
_CALM = (_BLOCK_MINUTES - _BURST) / (_BLOCK_MINUTES - 1)


def busyness(time_ms: int) -> float:
    """By the hour of the day; 1 is the mean."""
    hour, into_ms = divmod(time_ms % DAY_MS, HOUR_MS)
    before, after = _HOURS[hour], _HOURS[(hour + 1) % 24]
    return before + (after - before) * (into_ms / HOUR_MS)


class Rhythm:
    """Event times from `start_ms` on, `rate` a second in the mean of a day.

    Bursts depend on the seed and the time only: two generators with one seed have them in the
    same minutes, wherever they start."""

    def __init__(self, seed: str, rate: float, start_ms: int) -> None:
        assert rate > 0, f"a rate of {rate} makes no events"
        self._seed = seed
        self._rate = rate
        self._start_ms = start_ms

    def times(self) -> Iterator[int]:
        """Never falling, without end."""
        random = Random(f"{self._seed} times")
        second_ms = self._start_ms
        due = 0.0
        block, burst_minute = -1, -1
        while True:
            minute = second_ms // MINUTE_MS
            if minute // _BLOCK_MINUTES != block:
                block = minute // _BLOCK_MINUTES
                burst_minute = self._burst_minute(block)
            factor = _BURST if minute == burst_minute else _CALM
            # What is left of an event goes to the next second: none is lost to rounding.
            due += self._rate * busyness(second_ms) * factor
            count = int(due)
            due -= count
            yield from sorted(second_ms + below(SECOND_MS, random) for _ in range(count))
            second_ms += SECOND_MS

    def _burst_minute(self, block: int) -> int:
        random = Random(f"{self._seed} burst {block}")
        return block * _BLOCK_MINUTES + below(_BLOCK_MINUTES, random)
