"""What the results of the activity pipeline add up to, record by record."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla.cli.pipeline.results.activity_results import (
    LONGEST_MINUTES,
    MINUTES_MAX,
    SESSIONS,
    TOP,
    TOPICS,
    TRAFFIC,
    Results,
    Traffic,
)

DAY = "2026-01-01T00:00:00.000Z"
MINUTE = "2026-01-01T08:00:00.000Z"
NEXT_MINUTE = "2026-01-01T08:01:00.000Z"


def traffic(window: str, start: str, views: int, visitors: int) -> dict[str, Any]:
    return {"window": window, "start": start, "page_views": views, "visitors": visitors}


def session(start: str, end: str, actions: int) -> dict[str, Any]:
    return {"user": "ada", "start": start, "end": end, "actions": actions, "page_views": 1}


def test_the_last_record_of_a_window_counts() -> None:
    results = Results()
    for one in (
        traffic("minute", NEXT_MINUTE, 5, 4),
        traffic("minute", MINUTE, 2, 1),
        traffic("minute", MINUTE, 3, 2),
        traffic("day", "2025-12-31T00:00:00.000Z", 9, 9),
        traffic("day", DAY, 8, 5),
    ):
        results.take(TRAFFIC, one)

    assert results.in_order() == [(MINUTE, Traffic(3, 2)), (NEXT_MINUTE, Traffic(5, 4))]
    assert results.newest_day() == Traffic(8, 5)


def test_sessions_add_up() -> None:
    results = Results()
    results.take(SESSIONS, session(MINUTE, MINUTE, 1))
    results.take(SESSIONS, session(MINUTE, "2026-01-01T08:02:59.500Z", 7))

    assert (results.sessions, results.session_actions, results.session_s) == (2, 8, 179.5)
    assert results.session_minutes == Counter({0: 1, 2: 1})


def test_the_ranking_is_that_of_the_newest_day() -> None:
    results = Results()
    assert results.ranking("page") == []
    for day, count in (("2026-01-02", 4), ("2026-01-01", 9)):
        top = [{"subject": "/a", "count": count}]
        results.take(TOP, {"day": day, "kind": "page", "top": top})

    assert results.ranking("page") == [("/a", 4)]
    assert results.ranking("search") == []


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("record", [b"hello", b"\xff", b"7", b"[]", b"{}", b"null"])
def test_what_is_no_result_is_passed_over(topic: str, record: bytes) -> None:
    results = Results()
    results.take_record(topic, record)

    assert results == Results(passed_over=1)


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        (TRAFFIC, traffic("minute", "soon", 1, 1)),
        (TRAFFIC, traffic("minute", "2026-01-01T08:00:00", 1, 1)),
        (TRAFFIC, {**traffic("day", DAY, 1, 1), "visitors": "many"}),
        (SESSIONS, session(MINUTE, "2026-01-01", 1)),
        (SESSIONS, {**session(MINUTE, NEXT_MINUTE, 1), "actions": None}),
        (TOP, {"day": 7, "kind": "page", "top": []}),
        (TOP, {"day": "2026-01-01", "kind": "page", "top": [{"subject": "/", "count": "1"}]}),
    ],
)
def test_what_only_looks_like_a_result_is_passed_over(topic: str, value: dict[str, Any]) -> None:
    results = Results()
    results.take(topic, value)

    assert results == Results(passed_over=1)


def test_a_week_of_results_is_as_small_as_an_evening() -> None:
    """One second is one minute of the site, so a week is 420 days."""
    results = Results()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for minute in range(0, 420 * 1440, 7):
        text = f"{start + timedelta(minutes=minute):%Y-%m-%dT%H:%M}:00.000Z"
        results.take(TRAFFIC, traffic("minute", text, 2, 1))
        results.take(TRAFFIC, traffic("day", f"{text[:10]}T00:00:00.000Z", 2, 1))
        results.take(TOP, {"day": text[:10], "kind": "page", "top": []})
    for length in range(1000):
        end = f"{start + timedelta(minutes=length):%Y-%m-%dT%H:%M}:00.000Z"
        results.take(SESSIONS, session(DAY, end, 1))

    assert len(results.minutes) == MINUTES_MAX
    assert max(results.minutes) == results.in_order()[-1][0] == text
    assert (len(results.days), len(results.top["page"])) == (3, 3)
    assert set(results.session_minutes) == set(range(LONGEST_MINUTES + 1))
    assert results.session_minutes[LONGEST_MINUTES] == 1000 - LONGEST_MINUTES
