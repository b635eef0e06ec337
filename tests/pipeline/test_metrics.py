"""The metrics job: its answers worked out by hand, those of generated records, and what its
sketches are good for, on real Spark."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.generate import metrics as generated
from ottla.pipeline.generate.event import Event, limited
from ottla.pipeline.generate.metrics import Alarm, WindowKey
from ottla.pipeline.jobs import metrics
from ottla.pipeline.jobs.alarms import WINDOWS_S, Rule
from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.jobs.metrics import (
    JOB,
    RANK_ERROR,
    SKETCH_K,
    alarms,
    broken,
    samples,
    windows,
)
from ottla.pipeline.run.replay import Replay, begin_replay
from tests.support.counts import IS_FULL
from tests.support.job_runs import (
    after_all_so_far,
    run_once,
    send,
    settings_of,
    table_rows,
    topic_values,
)
from tests.support.side_by_side import SUBJECTS, Subject
from tests.support.stream_steps import StreamSteps

HOUR_MS = 1_735_722_000_000  # 2025-01-01T09:00Z
SAMPLES = "time timestamp, host string, metric string, value double"
WATERMARK_MS = 180_000
AGGREGATES = ("count", "min", "max", "mean", "p50", "p99")


def at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def at_ms(time: datetime | str) -> int:
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    # Rows that Spark hands out have no zone: the session's is UTC.
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return (moment - at(0)) // timedelta(milliseconds=1)


def frame_of(spark: SparkSession, rows: Sequence[tuple[int, str, str, float]]) -> DataFrame:
    values = [(at(HOUR_MS + time_ms), *others) for time_ms, *others in rows]
    return spark.createDataFrame(values, SAMPLES)


def by_hand(rows: Sequence[Any]) -> dict[tuple[str, int, str], tuple[float, ...]]:
    """(length, milliseconds after the hour, host): aggregates."""
    found = {
        (r["window_length"], at_ms(r["window_start"]) - HOUR_MS, r["host"]): tuple(
            r[name] for name in AGGREGATES
        )
        for r in rows
    }
    assert len(found) == len(rows)
    return found


ROWS = [
    (0, "a", "cpu_percent", 10.0),
    (9_999, "a", "cpu_percent", 40.0),
    (10_000, "a", "cpu_percent", 100.0),
    (5_000, "a", "cpu_percent", 20.0),
    (0, "b", "cpu_percent", -7.0),
]


def test_windows_and_alarms_worked_out_by_hand(spark: SparkSession) -> None:
    found = windows(frame_of(spark, ROWS), "3 minutes").cache()
    three = (3, 10.0, 40.0, 70 / 3, 20.0, 40.0)
    four = (4, 10.0, 100.0, 42.5, 20.0, 100.0)
    assert by_hand(found.collect()) == {
        ("10s", 0, "a"): three,
        ("10s", 10_000, "a"): (1, *[100.0] * 5),
        ("1m", 0, "a"): four,
        ("1h", 0, "a"): four,
        **{(length, 0, "b"): (1, *[-7.0] * 5) for length in WINDOWS_S},
    }
    (row,) = found.where("window_length = '1m' and host = 'a'").collect()
    assert (row.window_end - row.window_start, str(row.day)) == (timedelta(minutes=1), "2025-01-01")

    rules = [
        Rule("mean", "cpu_percent", "mean", "1m", 42.4),
        Rule("not above", "cpu_percent", "max", "10s", 100.0),
        Rule("not below", "cpu_percent", "min", "10s", -7.0, is_above=False),
        Rule("low", "cpu_percent", "min", "1h", 9.0, is_above=False),
        Rule("many", "cpu_percent", "count", "10s", 2),
        Rule("middle", "cpu_percent", "p50", "1h", 19.0),
        Rule("of b", "cpu_percent", "p99", "10s", -8.0, host="b*"),
        Rule("of none", "cpu_percent", "p99", "10s", -8.0, host="?b"),
        Rule("other metric", "latency_ms", "max", "10s", -9.0),
    ]
    raised = alarms(found, rules)
    rows = raised.collect()
    assert sorted(
        (r.rule, r.host, r.window_length, at_ms(r.window_start) - HOUR_MS, r.aggregate, r.value)
        for r in rows
    ) == [
        ("low", "b", "1h", 0, "min", -7.0),
        ("many", "a", "10s", 0, "count", 3.0),
        ("mean", "a", "1m", 0, "mean", 42.5),
        ("middle", "a", "1h", 0, "p50", 20.0),
        ("of b", "b", "10s", 0, "p99", -7.0),
    ]
    assert {(r.rule, r.threshold, r.is_above) for r in rows} >= {
        ("low", 9.0, False),
        ("mean", 42.4, True),
    }
    without = alarms(found, [])
    assert without.collect() == []
    assert without.schema.simpleString() == raised.schema.simpleString()
    found.unpersist()


def test_percentiles_are_within_the_error_of_the_sketch_also_when_merged(
    spark: SparkSession,
) -> None:
    """A minute of far more values than a sketch keeps."""
    random = Random(1)
    values = [(1 / (1 - 0.999 * random.random())) for _ in range(20_000)]
    rows = [(index * 3, "a", "m", value) for index, value in enumerate(values)]
    found = windows(frame_of(spark, rows), "3 minutes").cache()
    (minute,) = found.where("window_length = '1m'").collect()
    sketch = F.kll_merge_agg_double("sketch")
    merged = found.where("window_length = '10s'").agg(
        F.count("*").alias("parts"),
        F.kll_sketch_get_n_double(sketch).alias("count"),
        F.kll_sketch_get_quantile_double(sketch, F.lit(0.5)).alias("p50"),
        F.kll_sketch_get_quantile_double(sketch, F.lit(0.99)).alias("p99"),
    )
    (parts,) = merged.collect()
    assert (parts.parts, parts["count"], minute["count"]) == (6, len(values), len(values))
    ordered = sorted(values)
    for row in (minute, parts):
        for wanted, value in ((0.5, row.p50), (0.99, row.p99)):
            # Which share of the values it does not exceed; equal values are a range of shares.
            lowest = bisect_left(ordered, value) / len(ordered)
            highest = bisect_right(ordered, value) / len(ordered)
            # RANK_ERROR is kept to in 99 of 100 sketches: three times of it is kept to always.
            error = 3 * RANK_ERROR
            assert lowest - error <= wanted <= highest + error, (row, wanted)
    assert len(minute.sketch) < 20_000
    found.unpersist()


def test_up_to_some_hundred_values_percentiles_are_exact(spark: SparkSession) -> None:
    sizes = (1, 2, 3, 50, 99, 100, 101, 199, 200, 201, 300, 700, SKETCH_K)
    rows = [(0, f"h{size}", "m", float(value)) for size in sizes for value in range(size, 0, -1)]
    found = windows(frame_of(spark, rows), "3 minutes").where("window_length = '10s'")
    exact = {f"h{size}": generated.window_of(map(float, range(1, size + 1))) for size in sizes}
    assert {row.host: (row.p50, row.p99) for row in found.collect()} == {
        host: (window.p50, window.p99) for host, window in exact.items()
    }


def test_windows_are_final_when_the_watermark_has_passed(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps = StreamSteps(spark, tmp_path, SAMPLES, lambda rows: windows(rows, "3 minutes"))

    def given(*rows: tuple[str, float]) -> dict[tuple[str, int, str], float]:
        found = steps.given(
            {"time": f"2025-01-01T{time}Z", "host": "a", "metric": "m", "value": value}
            for time, value in rows
        )
        return {key: window[0] for key, window in by_hand(found).items()}

    assert given(("09:00:00", 1), ("09:00:09.999", 2), ("09:00:10", 3)) == {}
    # The watermark is at 09:00:10: the first ten seconds are final, the minute is not.
    assert given(("09:00:01", 4), ("09:03:10", 5)) == {("10s", 0, "a"): 3}
    # Too late for its ten seconds, but not for its minute, nor its hour.
    assert given(("09:00:02", 6), ("09:04:00", 7)) == {("10s", 10_000, "a"): 1, ("1m", 0, "a"): 5}
    last = given(("10:03:00", 8))
    assert {key: count for key, count in last.items() if key[0] == "1h"} == {("1h", 0, "a"): 7}


def test_records_that_are_broken(spark: SparkSession) -> None:
    good = {"time": "2025-01-01T09:00:00Z", "host": "a", "metric": "m", "value": 1}
    values = [json.dumps(good).encode(), b"{", json.dumps({**good, "value": "x"}).encode()]
    rows = spark.createDataFrame(
        [(number, bytearray(value), at(HOUR_MS)) for number, value in enumerate(values)],
        "offset int, value binary, timestamp timestamp",
    )
    assert [(row.host, row.metric, row.value) for row in samples(rows).collect()] == [
        ("a", "m", 1.0)
    ]
    assert [(row.offset, row.value, row.reason[:8]) for row in broken(rows).collect()] == [
        (1, values[1], "no JSON:"),
        (2, values[2], "value is"),
    ]


def closing(time_ms: int) -> Event[generated.Sample]:
    """A record so late that all before it is final."""
    fields = {"time": at(time_ms).isoformat(), "host": "closing", "metric": "m", "value": 0}
    return Event(time_ms, time_ms, b"closing", json.dumps(fields).encode(), None)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("subject", SUBJECTS if IS_FULL else SUBJECTS[:1], indirect=True)
def test_generated_records_come_out_as_their_truth_says(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    topic = "metrics-whole"
    subject.create(topic, 3)
    settings = settings_of(JOB, subject.bootstrap, tmp_path, topic)
    events = list(limited(generated.Generator(1, 10, HOUR_MS), count=20_000))
    answers = generated.truth(events)

    half = len(events) // 2
    send(subject.bootstrap, topic, events[:half])
    run_once(spark, JOB, settings)
    latest_ms = max(event.event_time_ms for event in events[:half] if event.fact)
    final = {
        key: window
        for key, window in answers.windows.items()
        if key.start_ms + key.window_s * 1000 <= latest_ms - WATERMARK_MS
    }
    assert_windows(settings, final)

    end_ms = events[-1].arrival_ms + 2 * 3_600_000
    later_ms = after_all_so_far()
    send(subject.bootstrap, topic, [*events[half:], closing(end_ms)])
    run_once(spark, JOB, settings)
    assert_windows(settings, answers.windows)
    assert_alarms(table_rows(settings, metrics.ALARMS_TABLE), answers.alarms)
    said = topic_values(spark, settings, metrics.ALARMS_TOPIC)
    assert all(key == f"{v['rule']} {v['host']} {v['window_start']}" for key, v in said)
    assert_alarms([value for _, value in said], answers.alarms)
    assert {alarm.rule for alarm in answers.alarms} == {"cpu-busy", "latency-peak"}
    dead = table_rows(settings, "dead_letters")
    assert {row["query"] for row in dead} == {"metrics.dead-letters"}
    assert Counter((row["key"], row["value"]) for row in dead) == Counter(
        (event.key, event.value) for event in events if event.is_broken
    )

    begin_replay(settings.folder, Replay(later_ms))
    run_once(spark, JOB, settings)
    again = generated.truth(events[half:])
    assert_windows(settings, again.windows)
    assert_alarms(table_rows(settings, metrics.ALARMS_TABLE), again.alarms)
    assert len(table_rows(settings, "dead_letters")) == sum(one.is_broken for one in events[half:])


def assert_windows(settings: Settings, expected: Mapping[WindowKey, generated.Window]) -> None:
    rows = table_rows(settings, metrics.WINDOWS_TABLE)
    found = {
        WindowKey(
            at_ms(row["window_start"]),
            WINDOWS_S[row["window_length"]],
            row["host"],
            row["metric"],
        ): row
        for row in rows
    }
    assert len(found) == len(rows), "a window is there once"
    assert found.keys() == expected.keys()
    for key, window in expected.items():
        row = found[key]
        # All windows are small enough for a sketch to be exact.
        assert window.count <= SKETCH_K
        for name in ("count", "min", "max", "p50", "p99"):
            assert row[name] == getattr(window, name), (key, name)
        assert row["mean"] == pytest.approx(window.mean, rel=1e-12)


def assert_alarms(rows: list[dict[str, Any]], expected: Sequence[Alarm]) -> None:
    found = sorted(
        Alarm(at_ms(row["window_start"]), row["rule"], row["host"], row["value"]) for row in rows
    )
    assert [alarm[:3] for alarm in found] == [alarm[:3] for alarm in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-12)
