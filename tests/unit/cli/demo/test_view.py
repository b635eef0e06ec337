"""What the demo shows."""

from __future__ import annotations

import io

from rich.console import Console

from ottla.cli.demo.stream import Counts, Event
from ottla.cli.demo.view import Rates, plain_line, table


def counts_after(events: int) -> Counts:
    counts = Counts(sent=events, acknowledged=events, read=events)
    counts.written_offsets[0] = events - 1
    counts.read_offsets[0] = events - 3
    counts.latencies_ms.extend([1.5] * 10)
    counts.last_events.append(Event(0, events - 1, "ada", "/docs", 1.5))
    return counts


def test_rates_are_over_the_last_seconds() -> None:
    now_s = [0.0]
    rates = Rates(lambda: now_s[0])
    assert rates.sample(Counts()) == (0.0, 0.0)
    now_s[0] = 2.0
    assert rates.sample(Counts(acknowledged=200, read=100)) == (100.0, 50.0)
    now_s[0] = 5.0
    assert rates.sample(Counts(acknowledged=200, read=400)) == (0.0, 100.0)


def test_the_plain_line() -> None:
    line = plain_line(3.0, counts_after(3000), (1000.0, 999.6))

    assert line == (
        "  3.0 s: 3,000 in (1,000/s), 3,000 out (1,000/s), end to end p50 1.50 ms p99 1.50 ms"
    )
    assert plain_line(1.0, Counts(), (0, 0)) == "  1.0 s: 0 in (0/s), 0 out (0/s)"


def test_the_table_fits_80_columns_and_shows_it_all() -> None:
    out = io.StringIO()
    counts = counts_after(3000)
    counts.failed = "the disk is full"
    console = Console(file=out, width=80, force_terminal=False)

    console.print(table("ottla on here:1", "up 3 s", counts, Rates(), "page-views"))

    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for part in ("ottla on here:1", "up 3 s", "page-views-0", "2,999", "2,997", "/docs", "1.50 ms"):
        assert part in text
    assert "the disk is full" in text
