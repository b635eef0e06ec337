"""The activity generator, and its truth against answers worked out by hand."""

from __future__ import annotations

import json
from itertools import pairwise

from ottla.pipeline.generate.activity import (
    CLICK,
    PAGE_VIEW,
    SEARCH,
    Action,
    Generator,
    Session,
    Traffic,
    sessions_of,
    truth,
)
from ottla.pipeline.generate.event import Event, limited
from ottla.pipeline.generate.times import iso_of

DAY = 1_767_225_600_000  # 2026-01-01T00:00Z
NEXT_DAY = DAY + 86_400_000
MINUTE = 60_000
HALF_HOUR = 30 * MINUTE


def event(time_ms: int, kind: str, user: str, subject: str) -> Event[Action]:
    return Event(time_ms, time_ms, user.encode(), b"", Action(time_ms, kind, user, subject))


EVENTS = [
    event(DAY, PAGE_VIEW, "ann", "/d"),
    event(DAY + 59_999, PAGE_VIEW, "ann", "/a"),
    event(DAY + 30_000, PAGE_VIEW, "bob", "/b"),  # late
    event(DAY + 40_000, SEARCH, "cat", "red bag"),
    event(DAY + MINUTE, PAGE_VIEW, "ann", "/a"),
    event(DAY + MINUTE, CLICK, "bob", "/a"),
    Event(DAY, DAY, b"x", b"{", None),
    event(NEXT_DAY, PAGE_VIEW, "ann", "/c"),
    event(NEXT_DAY, SEARCH, "ann", "red bag"),
    event(NEXT_DAY, SEARCH, "bob", "tent"),
    event(NEXT_DAY + 1, SEARCH, "bob", "tent"),
]


def test_page_views_and_visitors_of_minutes_and_days() -> None:
    answers = truth(EVENTS)

    assert answers.minutes == {
        DAY: Traffic(page_views=3, visitors=2),
        DAY + MINUTE: Traffic(1, 1),
        NEXT_DAY: Traffic(1, 1),
    }
    assert answers.days == {DAY: Traffic(4, 2), NEXT_DAY: Traffic(1, 1)}
    assert answers.broken == 1


def test_rankings_of_days_with_equals_by_name() -> None:
    answers = truth(EVENTS)

    assert answers.top_pages == {
        DAY: [("/a", 2), ("/b", 1), ("/d", 1)],
        NEXT_DAY: [("/c", 1)],
    }
    assert answers.top_searches == {
        DAY: [("red bag", 1)],
        NEXT_DAY: [("tent", 2), ("red bag", 1)],
    }


def test_a_ranking_has_ten_places() -> None:
    events = [event(DAY, PAGE_VIEW, "ann", f"/{letter}") for letter in "lkjihgfedcba"]

    assert truth(events).top_pages == {DAY: [(f"/{letter}", 1) for letter in "abcdefghij"]}


def test_sessions_end_with_a_gap_of_more_than_half_an_hour() -> None:
    actions = [
        Action(DAY + HALF_HOUR, CLICK, "ann", "/a"),
        Action(DAY, PAGE_VIEW, "ann", "/a"),
        Action(DAY + 2 * HALF_HOUR + 1, PAGE_VIEW, "ann", "/a"),
        Action(DAY + 1, SEARCH, "bob", "tent"),
    ]

    assert sessions_of(actions) == [
        Session("ann", DAY, DAY + HALF_HOUR, actions=2, page_views=1),
        Session("ann", DAY + 2 * HALF_HOUR + 1, DAY + 2 * HALF_HOUR + 1, 1, 1),
        Session("bob", DAY + 1, DAY + 1, 1, 0),
    ]


def test_a_session_goes_over_midnight() -> None:
    actions = [Action(NEXT_DAY + by, PAGE_VIEW, "ann", "/a") for by in (-1, 0)]

    assert sessions_of(actions) == [Session("ann", NEXT_DAY - 1, NEXT_DAY, 2, 2)]


def test_nothing_has_empty_answers() -> None:
    answers = truth([])

    assert (answers.minutes, answers.days, answers.sessions) == ({}, {}, [])
    assert (answers.top_pages, answers.top_searches, answers.broken) == ({}, {}, 0)


def test_the_answers_add_up() -> None:
    events = list(limited(Generator(1, 20, DAY), count=30_000))
    answers = truth(events)

    whole = [e.fact for e in events if e.fact is not None]
    views = sum(action.type == PAGE_VIEW for action in whole)
    assert answers.broken + len(whole) == len(events)
    assert sum(traffic.page_views for traffic in answers.minutes.values()) == views
    assert sum(traffic.page_views for traffic in answers.days.values()) == views
    assert sum(session.actions for session in answers.sessions) == len(whole)
    assert sum(session.page_views for session in answers.sessions) == views
    for before, after in pairwise(answers.sessions):
        assert before.user != after.user or after.start_ms - before.end_ms > HALF_HOUR
    # Visitors come back: there are sessions to tell apart.
    assert len(answers.sessions) > len({action.user for action in whole})


def test_records_say_what_their_facts_say() -> None:
    for e in limited(Generator(2, 20, DAY), count=2000):
        if e.fact is None:
            continue
        fields = json.loads(e.value)
        assert e.key.decode() == fields["user"] == e.fact.user
        assert fields["type"] == e.fact.type
        assert fields["time"] == iso_of(e.fact.time_ms)
        assert fields["query" if e.fact.type == SEARCH else "page"] == e.fact.subject
        assert ("target" in fields) == (e.fact.type == CLICK)


def test_broken_records_are_broken_each_in_one_of_five_ways() -> None:
    ways = {_fault(e.value) for e in limited(Generator(3, 20, DAY), count=20_000) if e.is_broken}

    assert ways == {"no text", "no JSON", "no user", "no time", "no type"}


def _fault(value: bytes) -> str:
    try:
        fields = json.loads(value.decode())
    except UnicodeDecodeError:
        return "no text"
    except ValueError:
        return "no JSON"
    if "user" not in fields:
        return "no user"
    if fields["time"] == "yesterday":
        return "no time"
    return "no type" if fields["type"] not in (PAGE_VIEW, SEARCH, CLICK) else "none"
