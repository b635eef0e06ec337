"""What the screen and the page are made of."""

from __future__ import annotations

import pytest

from tests.support.demo_snapshot import a_snapshot, a_spark_snapshot, a_starting_spark


@pytest.mark.parametrize(
    ("watermark", "last_final"),
    [
        ("2026-01-01T08:57:30.000Z", "08:56"),
        ("2026-01-01T08:30:00.000Z", "08:55"),
        (None, "08:55"),
    ],
)
def test_a_minute_is_final_when_nothing_that_is_late_can_count_for_it(
    watermark: str | None, last_final: str
) -> None:
    """The newest minute is 08:59, and events may be three minutes late. The watermark is that of
    the batch before, so it may be behind what is known."""
    minutes, final_count = a_spark_snapshot(watermark=watermark).minutes()

    assert len(minutes) == 60
    assert minutes[final_count - 1][0][11:16] == last_final


def test_there_may_be_no_minutes_yet() -> None:
    assert a_starting_spark().minutes() == ([], 0)


def test_lag_is_what_spark_has_not_read() -> None:
    assert a_snapshot(spark=a_spark_snapshot(read=100_000)).lag == 23_456
    assert a_snapshot(spark=None).lag == 0
