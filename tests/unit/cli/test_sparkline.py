from __future__ import annotations

from collections import deque

from ottla.cli.sparkline import sparkline


def test_it_is_as_high_as_its_highest() -> None:
    assert sparkline(deque([0.0, 50.0, 100.0])) == "▁▅█"
    assert sparkline([7]) == "█"


def test_nothing_is_flat() -> None:
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
