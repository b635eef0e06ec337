"""One generated record, and the order in which records arrive."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from random import Random
from typing import Generic, TypeVar

LATE_MS_MAX = 120_000
"""No record arrives later than this after its event time: a watermark of more drops nothing, as
long as partitions are read at the same pace."""

_LATE_SHARE = 0.02

Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class Event(Generic[Fact]):
    """What is sent, and what it means. The truth is computed from `fact`, never by parsing
    `value`, so that a fault in a parser can't hide in both."""

    event_time_ms: int
    arrival_ms: int
    key: bytes
    value: bytes
    fact: Fact | None
    """None for a broken record, which belongs to the dead letters."""

    @property
    def is_broken(self) -> bool:
        return self.fact is None

    @property
    def is_late(self) -> bool:
        """It comes so late that others overtake it, where there are others."""
        return self.arrival_ms - self.event_time_ms >= 1000


def arrival_of(event_time_ms: int, random: Random) -> int:
    """Most records arrive at once, some up to two minutes late."""
    if random.random() >= _LATE_SHARE:
        return event_time_ms
    return event_time_ms + 1000 + int(random.random() * (LATE_MS_MAX - 1000))


def limited(
    events: Iterable[Event[Fact]], *, count: int | None = None, end_ms: int | None = None
) -> Iterator[Event[Fact]]:
    """The first `count` events, those that arrive before `end_ms`, or both."""
    if end_ms is not None:
        events = takewhile(lambda event: event.arrival_ms < end_ms, events)
    return islice(events, count)


def in_arrival_order(events: Iterable[Event[Fact]]) -> Iterator[Event[Fact]]:
    """Takes events by event time and holds the late ones back. What is still held back when the
    events end comes last."""
    held: list[tuple[int, int, Event[Fact]]] = []
    for number, event in enumerate(events):
        heapq.heappush(held, (event.arrival_ms, number, event))
        # Event times do not fall, so nothing that comes can arrive before this one's event time.
        while held and held[0][0] < event.event_time_ms:
            yield heapq.heappop(held)[2]
    while held:
        yield heapq.heappop(held)[2]
