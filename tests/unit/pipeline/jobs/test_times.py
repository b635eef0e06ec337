"""Times of events, in each way they are written."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.jobs.times import problem_ahead, time_us_of

NEW_YEAR_US = 1_767_225_600_000_000  # 2026-01-01T00:00Z


@pytest.mark.parametrize(
    ("text", "after_us"),
    [
        ("2026-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00.007Z", 7_000),
        ("2026-01-01T00:00:00.123456Z", 123_456),
        ("2026-01-01T00:00:00.123456789Z", 123_456),
        ("2026-01-01 00:00:00+00:00", 0),
        ("2025-12-31T16:00:00-08:00", 0),
        ("2026-01-01T05:30:00+05:30", 0),
        ("2025-12-31T23:59:59.999999Z", -1),
    ],
)
def test_iso_times(text: str, after_us: int) -> None:
    assert time_us_of(text) == NEW_YEAR_US + after_us


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no time: "),
        ("yesterday", "no time: yesterday"),
        ("2026-02-29T00:00:00Z", "no time: 2026-02-29T00:00:00Z"),
        ("2016-12-31T23:59:60Z", "no time: 2016-12-31T23:59:60Z"),
        ("2026-01-01T00:00:00", "no zone in the time: 2026-01-01T00:00:00"),
        ("2026-01-01", "no zone in the time: 2026-01-01"),
        ("1767225600", "no time: 1767225600"),
        ("x" * 1000, "no time: " + "x" * 64),
    ],
)
def test_what_is_no_time(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="no") as caught:
        time_us_of(text)
    assert str(caught.value) == problem


def test_the_ends_of_time() -> None:
    assert time_us_of("0001-01-01T00:00:00Z") == -62_135_596_800_000_000
    assert time_us_of("9999-12-31T23:59:59.999999Z") == 253_402_300_799_999_999
    # In UTC these are in the year 0 and in the year 10000, which dates cannot hold.
    for text in ("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"):
        with pytest.raises(ValueError, match=f"no time: {re.escape(text)}"):
            time_us_of(text)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-23 * 60, 23 * 60))
def test_what_was_formatted_parses_back(moment: datetime, offset_minutes: int) -> None:
    zone = timezone(timedelta(minutes=offset_minutes))
    since = moment.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)
    text = moment.replace(tzinfo=zone).isoformat()
    assert time_us_of(text) == since // timedelta(microseconds=1)


@given(st.text())
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(time_us_of(text), int)


def test_events_from_the_future() -> None:
    day_us = 86_400_000_000
    assert problem_ahead(NEW_YEAR_US + day_us, NEW_YEAR_US) is None
    assert problem_ahead(0, NEW_YEAR_US) is None
    assert problem_ahead(NEW_YEAR_US, None) is None
    assert problem_ahead(NEW_YEAR_US, -1000) is None
    assert problem_ahead(NEW_YEAR_US + day_us + 1, NEW_YEAR_US) == (
        "its time is more than a day after the record's timestamp"
    )
