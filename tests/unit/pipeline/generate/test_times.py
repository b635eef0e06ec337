"""Points in time as text."""

from __future__ import annotations

from ottla.pipeline.generate.times import access_time_of, iso_of

NEW_YEAR_MS = 1_767_225_600_000  # 2026


def test_iso_has_always_its_milliseconds() -> None:
    assert iso_of(NEW_YEAR_MS) == "2026-01-01T00:00:00.000Z"
    assert iso_of(NEW_YEAR_MS - 1) == "2025-12-31T23:59:59.999Z"


def test_access_lines_have_whole_seconds_and_english_months() -> None:
    assert access_time_of(NEW_YEAR_MS - 1) == "31/Dec/2025:23:59:59 +0000"
    assert access_time_of(951_782_400_000) == "29/Feb/2000:00:00:00 +0000"
