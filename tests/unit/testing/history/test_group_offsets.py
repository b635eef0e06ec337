"""Each anomaly: a history that has it, and one that is nearly the same and has none."""

from __future__ import annotations

from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.history.events import (
    AskCommit,
    Begin,
    Ended,
    Event,
    OffsetsCommitted,
    OffsetsFetched,
    Outcome,
    SendOffsets,
)
from tests.support.histories import P0, kinds


def committed(offset: int, *, is_known: bool = True) -> OffsetsCommitted:
    return OffsetsCommitted("member", "g", {P0: offset}, is_known)


def fetched(offset: int, *, since: int) -> OffsetsFetched:
    return OffsetsFetched("member", "g", {P0: offset}, since)


BACK = {AnomalyKind.OFFSET_FETCH_BACK}
UNCOMMITTED = {AnomalyKind.UNCOMMITTED_OFFSET_FETCHED}


def test_offset_fetch_back_behind_a_commit() -> None:
    history = [committed(4), committed(5)]
    assert kinds([*history, fetched(5, since=2)]) == set()
    assert kinds([*history, fetched(4, since=2)]) == BACK
    assert kinds([*history, fetched(4, since=1)]) == set(), "asked while the commit ran"
    assert kinds([*history, fetched(-1, since=2)]) == BACK, "told that there is none"
    assert kinds([fetched(-1, since=0), *history]) == set()


def test_offset_fetch_back_behind_another_fetch() -> None:
    """The commit was never answered: but who has seen it may count on it."""
    history = [committed(4), committed(5, is_known=False)]
    assert kinds([*history, fetched(4, since=2)]) == set()
    assert kinds([*history, fetched(4, since=2), fetched(5, since=3)]) == set()
    assert kinds([*history, fetched(5, since=2), fetched(4, since=3)]) == BACK


def test_offset_that_nobody_committed() -> None:
    assert kinds([committed(4), fetched(4, since=1)]) == set()
    assert kinds([committed(4), fetched(5, since=1)]) == UNCOMMITTED


def test_offsets_of_a_transaction() -> None:
    begun: list[Event] = [
        Begin("p", "t"),
        SendOffsets("p", "t", "g", {P0: 7}),
        AskCommit("p", "t"),
    ]
    is_committed = Ended("p", "t", Outcome.COMMITTED)
    assert kinds([*begun, fetched(7, since=3), is_committed, fetched(7, since=5)]) == set()
    assert kinds([*begun, is_committed, fetched(-1, since=4)]) == BACK
    was_aborted = Ended("p", "t", Outcome.ABORTED)
    assert kinds([*begun, was_aborted, fetched(-1, since=4)]) == set()
    assert kinds([*begun, was_aborted, fetched(7, since=4)]) == UNCOMMITTED
    early = [*begun[:2], fetched(7, since=2), begun[2], is_committed]
    assert kinds(early) == UNCOMMITTED, "before the commit was asked for"
