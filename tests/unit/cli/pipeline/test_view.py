"""How queries and batches are shown."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ottla.cli.pipeline.view import (
    COLUMNS,
    batch_json,
    batch_line,
    drawn,
    duration_text,
    input_text,
    row_of,
    stage_json,
    stage_line,
    state_text,
    status_json,
    summary_text,
    watermark_text,
)
from ottla.pipeline.jobs.job import Query, Settings
from ottla.pipeline.run.progress import BatchProgress, QueryProgress
from ottla.pipeline.run.stages import STAGES

BATCH = BatchProgress(
    query="traffic",
    batch_id=1234,
    time="2026-11-15T18:38:30.403Z",
    rows=400,
    rows_per_s=959.2,
    batch_ms=1417,
    watermark="2026-01-31T18:35:00.000Z",
    lag=60_007,
)


def progress_of(*batches: BatchProgress) -> QueryProgress:
    progress = QueryProgress("activity", "traffic", "my-group", state="running")
    for batch in batches:
        progress.add(batch)
    return progress


def test_a_row_has_the_last_batch_and_bars_of_those_before() -> None:
    progress = progress_of(replace(BATCH, rows_per_s=0, batch_ms=1, lag=0), BATCH)
    assert row_of(progress, is_running=True) == [
        *("traffic", "running", "1,234", "800", "959", "▁█", "1.4 s", "▁█"),
        *("2026-01-31 18:35:00Z", "60,007", "▁█"),
    ]


def test_the_speed_of_what_has_ended_is_that_of_the_run() -> None:
    """Its last batch may have had nothing to read."""
    progress = progress_of(BATCH, replace(BATCH, rows=0, rows_per_s=0.0, batch_ms=583))
    assert row_of(progress, is_running=True)[4] == "0"
    assert row_of(progress, is_running=False)[4] == "200"
    before = replace(QueryProgress("activity", "traffic", "my-group"), last=BATCH)
    assert row_of(before, is_running=False)[4] == "959"


def test_the_summary_of_a_run() -> None:
    settings = Settings(
        bootstrap="one:1", folder=Path("job"), lake="/lake", topics=("a",), output_prefix="my-"
    )
    query = Query(
        name="traffic",
        summary="",
        mode="update",
        transform=lambda rows: rows,
        write=lambda frame, batch: None,
        topics=("views",),
        tables=("views_table",),
    )
    assert summary_text(settings, [query], [progress_of(BATCH, BATCH)]) == (
        "rows read: traffic 800; written to topics my-views; tables views_table are in /lake"
    )
    query = replace(query, topics=(), tables=())
    assert summary_text(settings, [query], [progress_of(BATCH)]) == "rows read: traffic 400"


def test_a_query_without_a_batch() -> None:
    row = row_of(QueryProgress("activity", "traffic", "my-group"), is_running=True)
    assert row[:3] == ["traffic", "starting", "-"]
    assert len(row) == len(COLUMNS)


def test_nobody_runs_what_says_it_runs() -> None:
    assert state_text(progress_of(BATCH), is_running=True) == "running"
    assert state_text(progress_of(BATCH), is_running=False) == "died"
    ended = replace(progress_of(BATCH), state="ended")
    assert state_text(ended, is_running=False) == "ended"
    assert status_json(progress_of(BATCH), is_running=False)["state"] == "died"


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(7, "7 ms"), (999, "999 ms"), (1000, "1.0 s"), (61_000, "61.0 s")]
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_no_watermark() -> None:
    assert watermark_text(None) == "-"


def test_a_line_for_a_log() -> None:
    assert batch_line(BATCH) == (
        "2026-11-15T18:38:30.403Z  traffic  batch 1234, 400 rows, 959 rows/s, 1.4 s, "
        "watermark 2026-01-31T18:35:00.000Z, lag 60,007"
    )
    assert batch_line(replace(BATCH, watermark=None, lag=None)).endswith("959 rows/s, 1.4 s")


def test_a_line_for_programs() -> None:
    found = batch_json("activity", BATCH)
    assert list(found) == [
        *("event", "job", "query", "batch_id", "time", "rows", "rows_per_s", "batch_ms"),
        *("watermark", "lag"),
    ]
    assert found["event"] == "batch"


def test_stages_for_programs_and_for_people() -> None:
    assert stage_json("logs", "Java", 2.34567) == {
        "event": "stage",
        "job": "logs",
        "stage": "Java",
        "seconds": 2.346,
    }
    assert all(stage_line(stage, 12.34).startswith(" 12.3 s  ") for stage in STAGES)
    assert stage_line("first result", 9.87) == "  9.9 s  the first result is there"


def test_the_input() -> None:
    settings = Settings(bootstrap="one:1", folder=Path("job"), lake="lake", topics=("a",))
    assert input_text(settings) == "topic a"
    assert input_text(replace(settings, topics=("a", "b"))) == "topics a, b"
    assert input_text(replace(settings, topics=(), topic_pattern="a.*")) == "topics like a.*"


@pytest.mark.parametrize("width", [80, 150])
def test_the_live_table(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    progress = progress_of(*[replace(BATCH, rows=500_000, rows_per_s=123_456, watermark=None)] * 30)
    console.print(drawn("activity: topic a", "Ctrl-C ends", [progress], width, is_running=True))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[0] == "activity: topic a"
    titles = [column.title for column in COLUMNS if column.title and column.title != "STATE"]
    assert lines[2].split() == titles
    bars = "█" * (4 if width == 80 else 12)
    assert lines[4].split() == [
        *("traffic", "1,234", "15,000,000", "123,456", bars, "1.4", "s", bars),
        *("-", "60,007", bars),
    ]
    assert lines[-1] == "Ctrl-C ends"
