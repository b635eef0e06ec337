"""Generated records and the order of their arrival."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from ottla.pipeline.generate.event import (
    LATE_MS_MAX,
    Event,
    arrival_of,
    in_arrival_order,
    limited,
)


def event(event_time_ms: int, late_ms: int = 0, fact: str | None = "fact") -> Event[str]:
    return Event(event_time_ms, event_time_ms + late_ms, b"k", b"v", fact)


def test_an_event_knows_what_is_wrong_with_it() -> None:
    assert (event(0).is_late, event(0).is_broken) == (False, False)
    assert event(0, late_ms=1000).is_late
    assert event(0, fact=None).is_broken


def test_late_events_come_when_they_arrive_and_none_is_lost() -> None:
    a, late, b, c, last = event(1), event(2, 7), event(5), event(9), event(10, 3000)

    assert list(in_arrival_order([a, late, b, c, last])) == [a, b, late, c, last]
    assert list(in_arrival_order([last])) == [last]


def test_events_of_one_moment_keep_their_order() -> None:
    events = [event(5, fact=str(number)) for number in range(20)]

    assert list(in_arrival_order(events)) == events


def test_an_endless_stream_is_not_waited_for() -> None:
    endless = in_arrival_order(event(number) for number in count())

    assert next(endless).event_time_ms == 0


@pytest.mark.parametrize(
    ("limits", "times"),
    [
        ({}, [1, 2, 3]),
        ({"count": 2}, [1, 2]),
        ({"count": 0}, []),
        ({"end_ms": 3}, [1, 2]),
        ({"count": 1, "end_ms": 3}, [1]),
    ],
)
def test_limits(limits: dict[str, int], times: list[int]) -> None:
    events = [event(1), event(2), event(3)]

    assert [e.event_time_ms for e in limited(events, **limits)] == times


def test_some_arrive_late_and_none_too_late() -> None:
    random = Random("arrival")
    delays = [arrival_of(0, random) for _ in range(20_000)]

    late = [delay for delay in delays if delay]
    assert 300 < len(late) < 500  # 2 %
    assert min(late) >= 1000
    assert max(late) < LATE_MS_MAX
