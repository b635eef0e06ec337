"""Percentiles."""

from __future__ import annotations

from array import array

import pytest

from ottla.cli.latency import Summary, milliseconds_text, summary_of


def test_nothing_measured_has_no_percentiles() -> None:
    assert summary_of(array("d")) is None


def test_nearest_rank() -> None:
    assert summary_of(array("d", range(100, 0, -1))) == Summary(50, 95, 99, 100)
    assert summary_of(array("d", [7])) == Summary(7, 7, 7, 7)
    assert summary_of(array("d", [1, 2, 3])) == Summary(2, 3, 3, 3)


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0.123, "0.12 ms"), (9.5, "9.50 ms"), (1234.5, "1,234 ms")]
)
def test_text(milliseconds: float, text: str) -> None:
    assert milliseconds_text(milliseconds) == text
