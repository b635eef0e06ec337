"""What the screen and the page are made of."""

from __future__ import annotations

from tests.support.demo_look import a_look, a_spark_look


def test_minutes_are_final_when_the_watermark_has_passed_them() -> None:
    spark = a_spark_look(watermark="2026-01-01T08:03:00.000Z")
    minutes, final_count = spark.minutes()

    assert (len(minutes), final_count) == (60, 3)
    assert [start[11:16] for start, _ in minutes[:final_count]] == ["08:00", "08:01", "08:02"]


def test_without_a_watermark_none_is_final() -> None:
    assert a_spark_look(watermark=None).minutes()[1] == 0


def test_lag_is_what_spark_has_not_read() -> None:
    assert a_look(spark=a_spark_look(read=100_000)).lag == 23_456
    assert a_look(spark=None).lag == 0
