"""Windows out of a lake that deltalake wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from ottla.cli.pipeline.results.metric_windows import windows_in

NEWEST = datetime(2026, 1, 2, 0, 10, tzinfo=UTC)


def test_the_last_minutes_by_metric_over_all_hosts(tmp_path: Path) -> None:
    rows = [
        {
            "window_length": length,
            "window_start": start,
            "host": host,
            "metric": "cpu_percent",
            "count": count,
            "mean": mean,
            "p99": 2 * mean,
            "day": start.date(),
        }
        for length, start, host, count, mean in [
            ("1m", NEWEST, "a", 10, 20.0),
            ("1m", NEWEST, "b", 30, 40.0),
            ("1m", NEWEST - timedelta(minutes=29), "a", 1, 5.0),  # yesterday
            ("1m", NEWEST - timedelta(minutes=30), "a", 1, 7.0),  # too old
            ("1h", NEWEST, "a", 1, 1000.0),
        ]
    ]
    write_deltalake(
        tmp_path / "metrics", pa.Table.from_pylist(rows), partition_by=["window_length", "day"]
    )

    assert windows_in(str(tmp_path)) == [
        {
            "metric": "cpu_percent",
            "hosts": 2,
            "minutes": [
                {"start": "2026-01-01T23:41:00.000Z", "mean": 5.0, "p99": 10.0},
                {"start": "2026-01-02T00:10:00.000Z", "mean": 35.0, "p99": 80.0},
            ],
        }
    ]


def test_a_lake_without_minutes_and_no_lake(tmp_path: Path) -> None:
    assert windows_in(str(tmp_path)) == []
    row = {"window_length": "1h", "window_start": NEWEST, "host": "a", "metric": "m"}
    numbers = {"count": 1, "mean": 1.0, "p99": 1.0, "day": NEWEST.date()}
    table = pa.Table.from_pylist([row | numbers])
    write_deltalake(tmp_path / "metrics", table, partition_by=["window_length", "day"])
    assert windows_in(str(tmp_path)) == []
