from __future__ import annotations

from ottla.cli.pipeline.results.minutes import last_minutes

VALUES = {"2026-01-01T08:00:00.000Z": 5, "2026-01-01T07:57:00.000Z": 1}


def test_minutes_in_which_nothing_happened_are_there() -> None:
    assert last_minutes(VALUES) == [1, 0, 0, 5]


def test_only_the_last_ones() -> None:
    assert last_minutes(VALUES, 2) == [0, 5]
    assert last_minutes({}) == []
