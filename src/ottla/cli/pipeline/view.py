"""How a pipeline is shown: a table on a terminal, a line for each batch elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.cli.sparkline import sparkline
from ottla.cli.tables import Column, drawn_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ottla.pipeline.jobs.job import Query, Settings
    from ottla.pipeline.run.progress import BatchProgress, QueryProgress
    from ottla.pipeline.run.stages import Stage

T = TypeVar("T")

_BARS = 12
_BARS_NARROW = 4
_WIDE = 110
"""Columns of a terminal that has room for all bars."""

COLUMNS = (
    Column("QUERY"),
    Column("STATE"),
    Column("BATCH", is_number=True, rank=2),
    Column("ROWS", is_number=True, rank=1),
    Column("ROWS/S", is_number=True),
    Column("", rank=5, is_whole=True),
    Column("TIME", is_number=True, rank=3),
    Column("", rank=7, is_whole=True),
    Column("WATERMARK", rank=4),
    Column("LAG", is_number=True),
    Column("", rank=6, is_whole=True),
)
_STATE = 1

_STAGE_TEXTS: dict[Stage, str] = {
    "Java": "Java answers",
    "Spark session": "the Spark session is ready",
    "first query": "the first query runs",
    "first result": "the first result is there",
    "all queries": "all queries run",
}


def row_of(progress: QueryProgress, *, is_running: bool, bars: int = _BARS) -> list[str]:
    """Of the last batch, with the bars of some before it. The last batch of all has few rows, or
    none: what has ended shows the mean of all as its speed."""
    last = progress.last
    rows_per_s = 0.0 if last is None else last.rows_per_s
    if not is_running and progress.busy_ms:
        rows_per_s = progress.mean_rows_per_s
    name_and_state = [progress.query, state_text(progress, is_running=is_running)]
    if last is None:
        return [*name_and_state, "-", "-", "-", "", "-", "", "-", "-", ""]
    return [
        *name_and_state,
        f"{last.batch_id:,}",
        f"{progress.rows:,}",
        f"{rows_per_s:,.0f}",
        sparkline(progress.rows_per_s[-bars:]),
        duration_text(last.batch_ms),
        sparkline(progress.batch_ms[-bars:]),
        watermark_text(last.watermark),
        "-" if last.lag is None else f"{last.lag:,}",
        sparkline(progress.lag[-bars:]),
    ]


def state_text(progress: QueryProgress, *, is_running: bool) -> str:
    """A file that says it runs is not to be believed when nobody holds the lock."""
    if progress.state in ("starting", "running") and not is_running:
        return "died"
    return progress.state


def duration_text(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def watermark_text(watermark: str | None) -> str:
    """To the second; the day only where it is not today."""
    if watermark is None:
        return "-"
    moment = datetime.fromisoformat(watermark).astimezone(UTC)
    is_today = moment.date() == datetime.now(UTC).date()
    return moment.strftime("%H:%M:%SZ" if is_today else "%Y-%m-%d %H:%M:%SZ")


def batch_line(batch: BatchProgress) -> str:
    """For a log."""
    parts = [
        f"batch {batch.batch_id}",
        f"{batch.rows:,} rows",
        f"{batch.rows_per_s:,.0f} rows/s",
        duration_text(batch.batch_ms),
    ]
    if batch.watermark is not None:
        parts.append(f"watermark {batch.watermark}")
    if batch.lag is not None:
        parts.append(f"lag {batch.lag:,}")
    return f"{batch.time}  {batch.query}  {', '.join(parts)}"


def batch_json(job: str, batch: BatchProgress) -> dict[str, Any]:
    return {"event": "batch", "job": job, **asdict(batch)}


def stage_json(job: str, stage: Stage, seconds: float) -> dict[str, Any]:
    """Since the run began."""
    return {"event": "stage", "job": job, "stage": stage, "seconds": round(seconds, 3)}


def stage_line(stage: Stage, seconds: float) -> str:
    """For people, below one another.

    >>> stage_line("Java", 2.345)
    '  2.3 s  Java answers'
    """
    return f"{seconds:5.1f} s  {_STAGE_TEXTS[stage]}"


def status_json(progress: QueryProgress, *, is_running: bool) -> dict[str, Any]:
    return asdict(progress) | {"state": state_text(progress, is_running=is_running)}


def input_text(settings: Settings) -> str:
    if settings.topic_pattern is not None:
        return f"topics like {settings.topic_pattern}"
    return f"topic{'' if len(settings.topics) == 1 else 's'} {', '.join(settings.topics)}"


def output_names(settings: Settings, queries: Sequence[Query]) -> tuple[list[str], list[str]]:
    """Topics and tables."""
    topics = {settings.output_topic(name) for query in queries for name in query.topics}
    tables = {name for query in queries for name in query.tables}
    return sorted(topics), sorted(tables)


def summary_text(
    settings: Settings, queries: Sequence[Query], progress: Sequence[QueryProgress]
) -> str:
    """What a run that has ended has read, and where to look for what it wrote."""
    rows = ", ".join(f"{one.query} {one.rows:,}" for one in progress)
    if not any(one.rows for one in progress):
        return "there was nothing to read"
    topics, tables = output_names(settings, queries)
    found = [f"rows read: {rows}"]
    if topics:
        found.append(f"written to topics {', '.join(topics)}")
    if tables:
        found.append(f"tables {', '.join(tables)} are in {settings.lake}")
    return "; ".join(found)


def drawn(
    title: str, note: str, queries: Sequence[QueryProgress], width: int, *, is_running: bool
) -> RenderableType:
    """What `run` shows while it runs, and last of all, as wide as the terminal is."""
    from rich.console import Group
    from rich.text import Text

    bars = _BARS if width >= _WIDE else _BARS_NARROW
    rows = [_without_state(row_of(one, is_running=is_running, bars=bars)) for one in queries]
    table = drawn_table(_without_state(COLUMNS), rows, width)
    return Group(Text(title, style="bold"), Text(), table, Text(), Text(note, style="dim"))


def _without_state(cells: Sequence[T]) -> list[T]:
    return [*cells[:_STATE], *cells[_STATE + 1 :]]
