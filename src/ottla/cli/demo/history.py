"""How the demo went, over time: as fine as a second at first, and never more than some hundred
samples, however long it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.cli.latency import Summary

SAMPLES_MAX = 480
RECENT = 120
_SAMPLE_S = 1.0
_RATE_WINDOW_S = 5.0


class Totals(NamedTuple):
    """Since the start."""

    written: int
    read: int
    """By Spark."""


class Sample(NamedTuple):
    """At a time since the start."""

    at_s: float
    written_per_s: float
    read_per_s: float
    lag: int
    """Records that are written and that Spark has not read."""
    p50_ms: float | None
    """End to end, as the next; None where nothing came."""
    p99_ms: float | None
    memory_bytes: int | None
    """Of the broker; None where the system does not tell."""


class History:
    """Takes totals as often as the view is drawn, and keeps a sample a second. When there are too
    many, two become one, and from then on one is kept half as often."""

    def __init__(self) -> None:
        self._totals: deque[tuple[float, Totals]] = deque([(0.0, Totals(0, 0))])
        self._last_batch = (0, 0.0, 0.0)
        """Of Spark: its records, when the one before came, when it came."""
        self._kept: list[Sample] = []
        self._together: list[Sample] = []
        self._samples_each = 1
        self.recent: deque[Sample] = deque(maxlen=RECENT)
        """One a second."""

    def count(self, at_s: float, totals: Totals) -> None:
        batch = totals.read - self._totals[-1][1].read
        if batch:
            self._last_batch = (batch, self._last_batch[2], at_s)
        self._totals.append((at_s, totals))
        while len(self._totals) > 2 and at_s - self._totals[0][0] > _RATE_WINDOW_S:
            self._totals.popleft()

    def is_due(self, at_s: float) -> bool:
        return not self.recent or at_s - self.recent[-1].at_s >= _SAMPLE_S

    def add(self, latency: Summary | None, memory_bytes: int | None) -> None:
        written_per_s, read_per_s = self.rates()
        at_s, totals = self._totals[-1]
        sample = Sample(
            at_s,
            written_per_s,
            read_per_s,
            max(0, totals.written - totals.read),
            None if latency is None else latency.p50_ms,
            None if latency is None else latency.p99_ms,
            memory_bytes,
        )
        self.recent.append(sample)
        self._together.append(sample)
        if len(self._together) == self._samples_each:
            self._kept.append(merged(self._together))
            self._together.clear()
        if len(self._kept) == SAMPLES_MAX:
            pairs = zip(self._kept[::2], self._kept[1::2], strict=True)
            self._kept = [merged(pair) for pair in pairs]
            self._samples_each *= 2

    def rates(self) -> tuple[float, float]:
        """Written and read a second. Spark reads in batches, which come as a whole: what it reads
        is spread over the time since the batch before."""
        (then_s, before), (at_s, now) = self._totals[0], self._totals[-1]
        batch, began_s, ended_s = self._last_batch
        batch_s = max(ended_s - began_s, at_s - ended_s)
        return _rate(now.written - before.written, at_s - then_s), _rate(batch, batch_s)

    def samples(self) -> list[Sample]:
        """From the start; the last one may be of less time than the others."""
        return [*self._kept, *([merged(self._together)] if self._together else [])]


def merged(samples: Sequence[Sample]) -> Sample:
    """Rates and medians in the mean; the worst of what one would want to see."""

    def of(fold: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return fold(there) if there else None

    memory = of(max, [one.memory_bytes for one in samples])
    return Sample(
        samples[-1].at_s,
        _mean([one.written_per_s for one in samples]),
        _mean([one.read_per_s for one in samples]),
        max(one.lag for one in samples),
        of(_mean, [one.p50_ms for one in samples]),
        of(max, [one.p99_ms for one in samples]),
        None if memory is None else int(memory),
    )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
