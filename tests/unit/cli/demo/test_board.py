"""What the demo shows of the pipeline."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from ottla.cli.demo.board import Shown, board, plain_line
from ottla.cli.demo.history import Rate
from ottla.cli.demo.results import SESSIONS, TOP, TRAFFIC, Results

BATCH: dict[str, Any] = {
    "batch_id": 7,
    "rows": 2048,
    "rows_per_s": 1024.4,
    "batch_ms": 1630,
    "lag": 812,
}


def shown_with(results: Results, queries: dict[str, dict[str, Any]]) -> Shown:
    rates = [Rate(second, 1000, 10 * second) for second in range(100)]
    return Shown(123_456, 100_000, rates, Rate(100, 1000, 990), results, queries)


def some_results() -> Results:
    results = Results()
    for minute in range(60):
        start = f"2026-01-01T08:{minute:02}:00.000Z"
        traffic = {"start": start, "page_views": 500 + minute, "visitors": 300 + minute}
        results.take(TRAFFIC, {"window": "minute", **traffic})
    day = {"window": "day", "start": "2026-01-01T00:00:00.000Z", "page_views": 44_123}
    results.take(TRAFFIC, {**day, "visitors": 12_345})
    session = {"start": "2026-01-01T08:00:00.000Z", "end": "2026-01-01T08:03:00.000Z"}
    results.take(SESSIONS, {**session, "actions": 6})
    for kind, subject in (("page", "/a page with a very long name"), ("search", "[red] shoes")):
        top = [{"subject": subject, "count": 1234 - place} for place in range(10)]
        results.take(TOP, {"day": "2026-01-01", "kind": kind, "top": top})
    return results


def drawn(shown: Shown) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=False)
    console.print(board("ottla on here:1", "up 3 s", shown))
    return out.getvalue().splitlines()


def test_the_board_fits_80_columns_and_24_lines_and_shows_it_all() -> None:
    names = ("events", "sessions", "top", "traffic")
    found = drawn(shown_with(some_results(), dict.fromkeys(names, BATCH)))

    assert max(map(len, found)) <= 80
    assert len(found) <= 24
    text = "\n".join(found)
    for part in ("ottla on here:1", "up 3 s", "123,456", "1,000/s", "990/s", "23,456", "08:59"):
        assert part in text
    for part in ("559", "359", "44,123", "12,345 visitors", "mean 3.0 min", "[red] shoes"):
        assert part in text
    for part in (*names, "1,234", "1,024", "1.6 s", "812"):
        assert part in text


def test_before_there_are_results() -> None:
    text = "\n".join(drawn(shown_with(Results(), {})))

    assert "no results yet" in text


def test_the_plain_line() -> None:
    head = "  4.0 s: 123,456 records written (1,000/s), 100,000 read by Spark (990/s); "

    assert plain_line(4.0, shown_with(Results(), {})) == f"{head}no results yet"
    assert plain_line(4.0, shown_with(some_results(), {})) == (
        f"{head}44,123 page views of 12,345 visitors in 60 minutes, 1 sessions"
    )
