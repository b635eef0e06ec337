"""What the demo shows of the activity pipeline: a board that refreshes on a terminal, a line every
few seconds elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.cli.demo.history import Rate
from ottla.cli.demo.results import Results
from ottla.cli.sparkline import sparkline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

# It fits a terminal of 80 columns and 24 lines.
_WIDTH = 80
_BARS = 32
_PLACES = 5
_BAR_CELLS = 10
_LENGTHS = 12


@dataclass(frozen=True, slots=True)
class Shown:
    """One look at all that goes on."""

    written: int
    read: int
    rates: Sequence[Rate]
    rate: Rate
    results: Results
    queries: Mapping[str, Mapping[str, Any]]
    """The last batch of each."""

    @property
    def lag(self) -> int:
        return max(0, self.written - self.read)


def plain_line(seconds: float, shown: Shown) -> str:
    head = (
        f"{seconds:5.1f} s: {shown.written:,} records written ({shown.rate.written:,.0f}/s), "
        f"{shown.read:,} read by Spark ({shown.rate.read:,.0f}/s)"
    )
    minutes, day = shown.results.in_order(), shown.results.newest_day()
    if not minutes or day is None:
        return f"{head}; no results yet"
    return (
        f"{head}; {day.page_views:,} page views of {day.visitors:,} visitors in {len(minutes):,} "
        f"minutes, {shown.results.sessions:,} sessions"
    )


def board(title: str, subtitle: str, shown: Shown) -> RenderableType:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    return Panel(
        Group(
            _flow(shown),
            Text(),
            _answers(shown.results),
            Text(),
            _rankings(shown.results),
            Text(),
            _queries(shown.queries),
        ),
        title=Text(title, style="bold"),
        subtitle=Text(subtitle, style="dim"),
        title_align="left",
        subtitle_align="left",
        padding=(0, 2),
        width=_WIDTH,
    )


def _facts() -> Table:
    """A name, two numbers and bars."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(min_width=19)
    grid.add_column(justify="right", min_width=8)
    grid.add_column(justify="right", min_width=8)
    grid.add_column(min_width=_BARS)
    return grid


def _flow(shown: Shown) -> RenderableType:
    from rich.text import Text

    grid = _facts()
    recent = shown.rates[-_BARS:]
    grid.add_row(
        "records written",
        f"{shown.written:,}",
        f"{shown.rate.written:,.0f}/s",
        Text(sparkline([rate.written for rate in recent]), style="cyan"),
    )
    grid.add_row(
        "read by Spark",
        f"{shown.read:,}",
        f"{shown.rate.read:,.0f}/s",
        Text(sparkline([rate.read for rate in recent]), style="cyan"),
    )
    grid.add_row("lag", f"{shown.lag:,}", "", "")
    return grid


def _answers(results: Results) -> RenderableType:
    from rich.text import Text

    grid = _facts()
    minutes = results.in_order()[-_BARS:]
    if not minutes:
        grid.add_row("no results yet", "", "", Text("Spark starts", style="dim"))
        return grid
    last = minutes[-1][0][11:16]
    for name, values in (
        ("page views", [traffic.page_views for _, traffic in minutes]),
        ("visitors", [traffic.visitors for _, traffic in minutes]),
    ):
        grid.add_row(
            f"{name} a minute",
            f"{values[-1]:,}",
            Text(last, style="dim"),
            Text(sparkline(values), style="green"),
        )
    day = results.newest_day()
    if day is not None:
        visitors = Text(f"{day.visitors:,}").append(" visitors", style="dim")
        grid.add_row("of the day", f"{day.page_views:,}", Text("views", style="dim"), visitors)
    if results.sessions:
        lengths = [results.session_minutes[minute] for minute in range(_LENGTHS)]
        mean = f"mean {results.session_s / results.sessions / 60:.1f} min"
        text = Text(sparkline(lengths), style="magenta").append(f"  {mean}", style="dim")
        grid.add_row("sessions ended", f"{results.sessions:,}", Text("by min", style="dim"), text)
    else:
        waiting = Text("30 minutes after the last action", style="dim")
        grid.add_row("sessions ended", "0", "", waiting)
    return grid


def _rankings(results: Results) -> RenderableType:
    from rich.table import Table

    grid = Table.grid(padding=(0, 4))
    grid.add_column()
    grid.add_column()
    grid.add_row(
        _ranking("top pages", results.ranking("page")),
        _ranking("top searches", results.ranking("search")),
    )
    return grid


def _ranking(title: str, places: Sequence[tuple[str, int]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(min_width=13, no_wrap=True, max_width=16)
    grid.add_column(min_width=_BAR_CELLS)
    grid.add_column(justify="right", min_width=6)
    grid.add_row(Text(title, style="bold", overflow="ignore"), "", "")
    top = places[0][1] if places else 1
    for subject, count in places[:_PLACES]:
        cells = max(1, round(count / top * _BAR_CELLS))
        # Text, since brackets would be taken for markup.
        grid.add_row(Text(subject), Text("█" * cells, style="blue"), f"{count:,}")
    for _ in range(_PLACES - len(places)):
        grid.add_row("", "", "")
    return grid


def _queries(queries: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("query on Spark", min_width=16)
    for heading in ("batch", "rows", "rows/s", "time", "lag"):
        table.add_column(heading, justify="right", min_width=8)
    for name, batch in sorted(queries.items()):
        table.add_row(
            Text(name),
            f"{batch['batch_id']:,}",
            f"{batch['rows']:,}",
            f"{batch['rows_per_s']:,.0f}",
            f"{batch['batch_ms'] / 1000:.1f} s",
            "-" if batch["lag"] is None else f"{batch['lag']:,}",
        )
    return table
