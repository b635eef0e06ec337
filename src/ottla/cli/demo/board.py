"""The demo's screen: a board that refreshes on a terminal, a line every few seconds elsewhere. From
the first second it shows the broker; below, Spark's start, and then what Spark finds out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.demo.read_back import READ_RECORDS, ReadRecord
from ottla.cli.demo.snapshot import Snapshot, SparkSnapshot
from ottla.cli.pipeline.results.activity_results import Results, Traffic
from ottla.cli.sparkline import sparkline
from ottla.cli.tables import size_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

WIDTH_MAX = 120
_NARROW = 70
_NAME, _NUMBER, _GAP = 15, 10, 2
_LINES = 8
"""Of the frame, and between the parts: all that is neither flow nor middle nor hints."""
_PLACES_MAX = 10
_LENGTHS = 12
_HINT = 18
_VERBS = {"page_view": "views", "search": "searches for", "click": "clicks on"}


def plain_line(snapshot: Snapshot) -> str:
    rate = f"{snapshot.rates[0]:,.0f}/s"
    head = f"{snapshot.elapsed_s:5.1f} s: {snapshot.written:,} records written ({rate})"
    p50, p99 = _latency_texts(snapshot)
    head += f", end to end {p50} {p99}" if p50 else ""
    memory = _memory_text(snapshot)
    head += f", broker {memory}" if memory else ""
    spark = snapshot.spark
    if spark is None:
        return head
    day = spark.results.newest_day()
    if day is None:
        passed = [name for name, passed_s in spark.stages if passed_s is not None]
        done = f" ({passed[-1]} is there)" if passed else ""
        return f"{head}; Spark starts{done}"
    return f"{head}; {_found(spark, day)}"


def closing_line(snapshot: Snapshot) -> str:
    """What the demo did."""
    head = f"{snapshot.written:,} records written"
    spark = snapshot.spark
    if spark is None:
        p50, _ = _latency_texts(snapshot)
        return f"{head}, {snapshot.read_back:,} read back" + (f", {p50} end to end" if p50 else "")
    day = spark.results.newest_day()
    if day is None:
        return f"{head}; no results yet, Spark was still starting"
    strange = spark.results.passed_over
    passed_over = f"; {strange:,} records that are no results passed over" if strange else ""
    return f"{head}, {_found(spark, day)}{passed_over}"


def _found(spark: SparkSnapshot, day: Traffic) -> str:
    return (
        f"{spark.read:,} read by Spark: {day.page_views:,} page views of {day.visitors:,} "
        f"visitors, {spark.results.sessions:,} sessions"
    )


def _latency_texts(snapshot: Snapshot) -> tuple[str, str]:
    last = snapshot.recent[-1] if snapshot.recent else None
    if last is None or last.p50_ms is None or last.p99_ms is None:
        return "", ""
    return f"p50 {_ms(last.p50_ms)}", f"p99 {_ms(last.p99_ms)}"


def _ms(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def _memory_text(snapshot: Snapshot) -> str:
    memory = snapshot.recent[-1].memory_bytes if snapshot.recent else None
    return "" if memory is None else size_text(memory)


def board(snapshot: Snapshot, width: int, height: int) -> RenderableType:
    """Fits 60 columns and 24 lines; with more room it shows more."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    width = min(width, WIDTH_MAX)
    padding = 1 if width < _NARROW else 2
    room = width - 2 * (padding + 1)
    flow, hints = _flow(snapshot, room), _hints(snapshot)
    # Commands with an address are folded where the terminal is narrow.
    hint_lines = sum(-(-len(hint) // (room - _HINT - _GAP)) for hint in snapshot.commands) + 1
    lines = height - flow.row_count - hint_lines - _LINES
    return Panel(
        Group(flow, Text(), *_middle(snapshot, room, lines), Text(), hints),
        title=Text(f"ottla {snapshot.version} on {snapshot.bootstrap}", style="bold"),
        subtitle=_dim(f"up {_up_text(snapshot.elapsed_s)}, Ctrl-C ends"),
        title_align="left",
        subtitle_align="left",
        padding=(0, padding),
        width=width,
    )


def _up_text(seconds: float) -> str:
    """
    >>> _up_text(42), _up_text(3700), _up_text(100_000)
    ('42 s', '61 min', '27 h')
    """
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min" if seconds < 36_000 else f"{seconds // 3600:.0f} h"


def _middle(snapshot: Snapshot, room: int, lines: int) -> list[RenderableType]:
    """What there is most to say of. `lines` are those of a list, beside headings and gaps."""
    from rich.text import Text

    spark = snapshot.spark
    if spark is None:
        return [_records(snapshot.records, room, lines + 3)]
    if spark.results.newest_day() is None:
        stages = _stages(spark)
        return [stages, Text(), _records(snapshot.records, room, lines + 2 - stages.row_count)]
    answers = _answers(spark, room)
    places = max(1, min(lines - answers.row_count, _PLACES_MAX))
    return [answers, Text(), _rankings(spark.results, room, places), Text(), _batches(spark)]


def _dim(text: str) -> Text:
    from rich.text import Text

    return Text(text, style="dim")


def _facts(room: int) -> Table:
    """A name, two numbers, and bars or words."""
    from rich.table import Table

    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(width=_NAME, no_wrap=True)
    grid.add_column(justify="right", width=_NUMBER, no_wrap=True)
    grid.add_column(justify="right", width=_NUMBER, no_wrap=True)
    grid.add_column(width=_bars_width(room), no_wrap=True)
    return grid


def _bars_width(room: int) -> int:
    return max(8, room - _NAME - 2 * _NUMBER - 3 * _GAP)


def _bars(values: Sequence[float | None], room: int, style: str, open_count: int = 0) -> Text:
    """The last `open_count` are not final."""
    from rich.text import Text

    shown = [value or 0.0 for value in values[-_bars_width(room) :]]
    text = Text(sparkline(shown), style=style)
    if open_count:
        text.stylize("dim", max(0, len(shown) - open_count))
    return text


def _flow(snapshot: Snapshot, room: int) -> Table:
    grid, recent = _facts(room), list(snapshot.recent)

    def bars(values: Sequence[float | None]) -> Text:
        return _bars(values, room, "cyan")

    written, read = (f"{rate:,.0f}/s" for rate in snapshot.rates)
    p50, p99 = _latency_texts(snapshot)
    grid.add_row(
        "records written",
        f"{snapshot.written:,}",
        written,
        bars([one.written_per_s for one in recent]),
    )
    grid.add_row("end to end", p50 or "-", p99, bars([one.p50_ms for one in recent]))
    if snapshot.spark is None:
        grid.add_row("read back", f"{snapshot.read_back:,}", "", "")
    else:
        count = f"{snapshot.spark.read:,}"
        grid.add_row("read by Spark", count, read, bars([one.read_per_s for one in recent]))
        grid.add_row("lag", f"{snapshot.lag:,}", "", bars([one.lag for one in recent]))
    grid.add_row(
        "broker's memory",
        _memory_text(snapshot) or "-",
        "",
        _dim(f"ready in {snapshot.ready_s:.2f} s"),
    )
    return grid


def _stages(spark: SparkSnapshot) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(width=_NAME + _GAP)
    grid.add_column(justify="right", width=_NUMBER - _GAP)
    grid.add_row(Text("Spark starts", style="bold"), "")
    is_now = True
    for name, passed_s in spark.stages:
        if passed_s is not None:
            grid.add_row(
                Text("✓ ", style="green").append(name, style="default"), f"{passed_s:.1f} s"
            )
        elif is_now:
            is_now = False
            clock = Text(f"{spark.elapsed_s:.1f} s", style="bold")
            grid.add_row(Text("▸ ", style="cyan").append(name, style="bold default"), clock)
        else:
            grid.add_row(_dim(f"  {name}"), "")
    return grid


def _records(records: Sequence[ReadRecord], room: int, count: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    count = max(1, min(count, READ_RECORDS))
    table = Table(
        box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0), width=room
    )
    table.add_column("partition @ offset", no_wrap=True, width=18)
    table.add_column("user", no_wrap=True, min_width=11)
    table.add_column("does", no_wrap=True, ratio=1)
    table.add_column("after", no_wrap=True, justify="right")
    newest = list(reversed(records))[:count]
    for record in newest:
        user, does = _told(record.value)
        place = f"{record.partition} @ {record.offset:,}"
        # Text, since brackets would be taken for markup.
        table.add_row(_dim(place), Text(user), Text(does), _ms(record.latency_ms))
    for _ in range(count - len(newest)):
        table.add_row("", "", "", "")
    return table


def _told(value: bytes) -> tuple[str, str]:
    """Who did what, of a record of activity. One in a hundred is broken, for the dead letters."""
    try:
        action = json.loads(value)
        subject = action["query"] if action["type"] == "search" else action["page"]
        return str(action["user"]), f"{_VERBS[action['type']]} {subject}"
    except (ValueError, TypeError, KeyError):
        return "-", "broken, for the dead letters"


def _answers(spark: SparkSnapshot, room: int) -> Table:
    from rich.text import Text

    grid, results = _facts(room), spark.results
    minutes, final_count = spark.minutes()
    if minutes:
        start = minutes[final_count - 1][0]  # the newest if none is final
        for name, values in (
            ("page views/min", [traffic.page_views for _, traffic in minutes]),
            ("visitors/min", [traffic.visitors for _, traffic in minutes]),
        ):
            bars = _bars(values, room, "green", len(minutes) - final_count)
            last = f"{values[final_count - 1]:,}"
            grid.add_row(name, last, _dim(f"at {start[11:16]}"), bars)
    day = results.newest_day()
    if day is not None:
        visitors = Text(f"{day.visitors:,}").append(" visitors", style="dim")
        grid.add_row("this day", f"{day.page_views:,}", _dim("views"), visitors)
    if results.sessions:
        lengths = [results.session_minutes[minute] for minute in range(_LENGTHS)]
        text = Text(sparkline(lengths), style="magenta")
        if _bars_width(room) > 2 * _LENGTHS:
            mean = f"  mean {results.session_s / results.sessions / 60:.1f} min"
            text.append(mean, style="dim")
        grid.add_row("sessions ended", f"{results.sessions:,}", _dim("by min"), text)
    else:
        grid.add_row("sessions ended", "0", "", _dim("30 min after the last action"))
    return grid


def _rankings(results: Results, room: int, places: int) -> Table:
    from rich.table import Table

    grid = Table.grid(padding=(0, _GAP, 0, 0), expand=True)
    each = room // 2 - _GAP
    for _ in range(2):
        grid.add_column(width=each)
    grid.add_row(
        _ranking("top pages", results.ranking("page"), each, places),
        _ranking("top searches", results.ranking("search"), each, places),
    )
    return grid


def _ranking(title: str, ranking: Sequence[tuple[str, int]], width: int, places: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1, 0, 0))
    name_width, count_width = 12, 6
    cells = max(3, width - name_width - count_width - 3)
    grid.add_column(width=name_width, no_wrap=True)
    grid.add_column(width=cells, no_wrap=True)
    grid.add_column(justify="right", width=count_width, no_wrap=True)
    grid.add_row(Text(title, style="bold"), "", "")
    top = ranking[0][1] if ranking else 1
    for subject, count in ranking[:places]:
        bar = Text("█" * max(1, round(count / top * cells)), style="blue")
        grid.add_row(Text(subject), bar, f"{count:,}")
    for _ in range(places - len(ranking)):
        grid.add_row("", "", "")
    return grid


def _batches(spark: SparkSnapshot) -> Text:
    """The last batch of each query, in a line."""
    from rich.text import Text

    text = Text("last batches ", style="dim", no_wrap=True, overflow="ellipsis")
    for name, batch in sorted(spark.queries.items()):
        text.append(f" {name} ", style="default")
        text.append(f"{batch['batch_ms'] / 1000:.1f} s ")
    return text


def _hints(snapshot: Snapshot) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(width=_HINT, no_wrap=True)
    grid.add_column(overflow="fold")
    url = Text(snapshot.page_url, style=f"cyan link {snapshot.page_url}")
    grid.add_row(_dim("charts, live"), url)
    for index, command in enumerate(snapshot.commands):
        grid.add_row(_dim("another terminal") if index == 0 else "", Text(command, style="bold"))
    return grid
