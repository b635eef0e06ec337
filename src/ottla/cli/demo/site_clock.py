"""The time of the demo's site. It runs ahead, so that minutes and sessions end while one watches,
and never past the time of the day: pipelines refuse events from the future."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SPEED = 60
"""One second here is one minute of the site."""
_DAYS_BACK = 1000
"""Where the site begins: its minutes are seconds for 17 days, until it has caught up."""
_FIRST_HOUR = 8


class SiteClock:
    """Lives as long as the demo; knows when it began, and is told how long ago that was."""

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        day = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=_DAYS_BACK)
        first = day.replace(hour=_FIRST_HOUR, minute=0, second=0, microsecond=0)
        self.start_ms = round(first.timestamp() * 1000)

    def due_s(self, time_ms: int) -> float:
        """How long after the demo began this moment of the site comes. Once the site has caught
        up, its seconds are as long as ours."""
        ahead_s = (time_ms - self.start_ms) / 1000 / SPEED
        caught_up_s = (time_ms - self._began_ms) / 1000
        return max(ahead_s, caught_up_s)
