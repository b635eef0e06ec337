"""Looks at a demo that never ran, for tests of what is shown of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ottla.cli.demo.history import Sample
from ottla.cli.demo.read_back import ReadRecord
from ottla.cli.demo.snapshot import Snapshot, SparkSnapshot
from ottla.cli.pipeline.results.activity_results import SESSIONS, TOP, TRAFFIC, Results

STAGES = ("Java", "Spark session", "first query", "first result", "all queries")
QUERIES = ("events", "sessions", "top", "traffic")
MINUTES = 60


def some_results() -> Results:
    """An hour of them, with a burst every ten minutes."""
    results = Results()
    for minute in range(MINUTES):
        start = f"2026-01-01T08:{minute:02}:00.000Z"
        views = (1500 if minute % 10 == 4 else 500) + minute
        traffic = {"start": start, "page_views": views, "visitors": views - 200}
        results.take(TRAFFIC, {"window": "minute", **traffic})
    day = {"window": "day", "start": "2026-01-01T00:00:00.000Z", "page_views": 44_123}
    results.take(TRAFFIC, {**day, "visitors": 12_345})
    for length in (0, 1, 1, 3, 3, 3, 8, 40):
        session = {"start": "2026-01-01T08:00:00.000Z", "end": f"2026-01-01T08:{length:02}:00.000Z"}
        results.take(SESSIONS, {**session, "actions": 6})
    subjects = {
        "page": ["/<b>bold</b>", *(f"/page/{number}" for number in range(2, 11))],
        "search": [
            "[red] & blue shoes with a name that is too long",
            *(f"bag {n}" for n in range(9)),
        ],
    }
    for kind, names in subjects.items():
        top = [{"subject": name, "count": 1234 // (place + 1)} for place, name in enumerate(names)]
        results.take(TOP, {"day": "2026-01-01", "kind": kind, "top": top})
    return results


def a_spark_snapshot(
    *,
    read: int = 100_000,
    watermark: str | None = "2026-01-01T08:57:00.000Z",
    results: Results | None = None,
) -> SparkSnapshot:
    batch: dict[str, Any] = {"batch_id": 7, "batch_ms": 1630, "watermark": watermark}
    return SparkSnapshot(
        stages=[(name, 1.5 + place) for place, name in enumerate(STAGES)],
        elapsed_s=95.0,
        read=read,
        queries=dict.fromkeys(QUERIES, batch),
        results=some_results() if results is None else results,
    )


def a_starting_spark() -> SparkSnapshot:
    """It has passed two stages."""
    passed: list[tuple[str, float | None]] = [("Java", 1.5), ("Spark session", 2.5)]
    passed += [(name, None) for name in STAGES[2:]]
    return replace(
        a_spark_snapshot(read=0, results=Results()), stages=passed, elapsed_s=4.2, queries={}
    )


def some_samples(count: int = 95) -> list[Sample]:
    return [
        Sample(
            at_s=float(second),
            written_per_s=1000 + 300 * (second % 10 == 4),
            read_per_s=0.0 if second < 14 else 990.0,
            lag=min(second, 14) * 1000,
            p50_ms=None if second == 1 else 1.2,
            p99_ms=None if second == 1 else 4.0 + second % 3,
            memory_bytes=40_000_000 + second * 10_000,
        )
        for second in range(1, count + 1)
    ]


def a_snapshot(
    *, spark: SparkSnapshot | None = None, samples: Sequence[Sample] | None = None, **changes: Any
) -> Snapshot:
    samples = some_samples() if samples is None else samples
    action = b'{"type":"page_view","user":"user-%d","page":"/page/7"}'
    snapshot = Snapshot(
        version="1.2.3",
        bootstrap="127.0.0.1:9092",
        ready_s=0.12,
        elapsed_s=95.2,
        written=123_456,
        read_back=123_456,
        rates=(1001.0, 990.0),
        samples=samples,
        recent=samples[-60:],
        records=[ReadRecord(2, 1000 + number, action % number, 1.3) for number in range(10)],
        spark=spark,
        page_url="http://127.0.0.1:8123/",
        commands=["ottla consume activity", "ottla topics list"],
    )
    return replace(snapshot, **changes)
