"""The time of the demo's site."""

from __future__ import annotations

from datetime import UTC, datetime

from ottla.cli.demo.site_clock import SiteClock

NOW_MS = round(datetime(2026, 11, 16, 12, 34, 56, tzinfo=UTC).timestamp() * 1000)
DAY_S = 86_400


def test_it_begins_in_a_morning_and_a_minute_passes_in_a_second() -> None:
    site = SiteClock(NOW_MS)

    start = datetime.fromtimestamp(site.start_ms / 1000, UTC)
    assert (start.hour, start.minute, start.second) == (8, 0, 0)
    assert site.due_s(site.start_ms) == 0
    assert site.due_s(site.start_ms + 60_000) == 1


def test_in_months_it_is_never_ahead_of_the_clock_on_the_wall() -> None:
    site = SiteClock(NOW_MS)
    for day in range(1, 5000):
        time_ms = site.start_ms + day * DAY_S * 1000
        wall_ms = NOW_MS + site.due_s(time_ms) * 1000
        assert time_ms <= wall_ms + 1, f"day {day} comes too early"

    # A week is behind it in every second of a minute.
    assert site.due_s(site.start_ms + 60 * 7 * DAY_S * 1000) == 7 * DAY_S
