"""Values of minutes, one after another, with those in which nothing happened."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

MINUTES_SHOWN = 30


def last_minutes(values: Mapping[str, float], count: int = MINUTES_SHOWN) -> list[float]:
    """By the time at which a minute begins, ISO 8601: the last ones, up to the newest that has a
    value, and from the first on that has one.

    >>> last_minutes({"2026-01-01T08:00:00.000Z": 5, "2026-01-01T08:02:00.000Z": 7})
    [5, 0, 7]
    """
    by_time = {datetime.fromisoformat(time): value for time, value in values.items()}
    if not by_time:
        return []
    newest = max(by_time)
    length = int((newest - min(by_time)) / timedelta(minutes=1)) + 1
    times = [newest - timedelta(minutes=back) for back in range(min(count, length))]
    return [by_time.get(time, 0) for time in reversed(times)]
