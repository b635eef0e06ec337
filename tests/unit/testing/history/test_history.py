from __future__ import annotations

from typing import get_args

from ottla.testing.history.events import (
    Acknowledged,
    AskCommit,
    Assigned,
    Begin,
    Ended,
    Event,
    LeaderSeen,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetsListed,
    Outcome,
    Send,
    SendFailed,
    SendOffsets,
    SendUnknown,
    Source,
)
from ottla.testing.history.history import History
from tests.support.histories import P0, P1, polled

EVENTS: list[Event] = [
    Begin("p", "t1"),
    Send("p", "a", P0, "t1", Source("g", P1, 7)),
    Acknowledged("p", "a", 3),
    SendOffsets("p", "t1", "g", {P0: 8, P1: 9}),
    AskCommit("p", "t1"),
    Ended("p", "t1", Outcome.COMMITTED),
    Send("p", "b", P1),
    SendFailed("p", "b"),
    SendUnknown("p", "c"),
    Acknowledged("p", "d", None),
    Assigned("r", {P0: -1}),
    polled((3, "a"), transaction="t2"),
    OffsetsCommitted("r", "g", {P0: 4}, is_known=False),
    OffsetsFetched("r", "g", {P0: 4}, since=2),
    OffsetsListed("r", {P0: 4}, is_read_committed=True),
    LeaderSeen("r", P0, 1, 5),
]


def test_json_lines_and_back() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event)), "none is left out"
    history = History(EVENTS)
    text = history.to_json_lines()
    assert len(text.splitlines()) == len(EVENTS)
    assert list(History.from_json_lines(text)) == EVENTS


def test_now_is_the_place_of_the_next_event() -> None:
    history = History()
    assert history.now == 0
    history.add(Begin("p", "t1"))
    assert history.now == len(history) == 1
    assert history[0] == Begin("p", "t1")
