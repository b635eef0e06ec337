"""What the demo shows: a table that refreshes on a terminal, a line a second elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli.demo.stream import PARTITIONS, Counts
from ottla.cli.latency import milliseconds_text
from ottla.cli.sparkline import sparkline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_RATE_WINDOW_S = 3.0
_HISTORY = 30


class Rates:
    """Events a second in and out, over the last few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int, int]] = deque()
        self.history: deque[float] = deque(maxlen=_HISTORY)

    def sample(self, counts: Counts) -> tuple[float, float]:
        now_s = self._clock()
        self._samples.append((now_s, counts.acknowledged, counts.read))
        while now_s - self._samples[0][0] > _RATE_WINDOW_S:
            self._samples.popleft()
        then_s, acknowledged, read = self._samples[0]
        elapsed_s = now_s - then_s
        if elapsed_s == 0:
            return 0.0, 0.0
        rate_in = (counts.acknowledged - acknowledged) / elapsed_s
        rate_out = (counts.read - read) / elapsed_s
        self.history.append(rate_out)
        return rate_in, rate_out


def plain_line(seconds: float, counts: Counts, rates: tuple[float, float]) -> str:
    latency = counts.latency()
    tail = ""
    if latency is not None:
        tail = (
            f", end to end p50 {milliseconds_text(latency.p50_ms)}"
            f" p99 {milliseconds_text(latency.p99_ms)}"
        )
    return (
        f"{seconds:5.1f} s: {counts.acknowledged:,} in ({rates[0]:,.0f}/s), "
        f"{counts.read:,} out ({rates[1]:,.0f}/s){tail}"
    )


def table(title: str, subtitle: str, counts: Counts, rates: Rates, topic: str) -> RenderableType:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    rate_in, rate_out = rates.sample(counts)
    body = Group(
        _flow(counts, rate_in, rate_out, sparkline(rates.history)),
        Text(),
        _partitions(counts, topic),
        Text(),
        _events(counts),
    )
    return Panel(
        body,
        title=Text(title, style="bold"),
        subtitle=Text(subtitle, style="dim"),
        title_align="left",
        subtitle_align="left",
        padding=(1, 2, 0, 2),
        width=80,
    )


def _flow(counts: Counts, rate_in: float, rate_out: float, sparks: str) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    latency = counts.latency()
    grid = Table.grid(padding=(0, 3))
    for justify in ("left", "right", "right", "left"):
        grid.add_column(justify=justify)
    grid.add_row("events in", f"{counts.acknowledged:,}", f"{rate_in:,.0f}/s", "")
    grid.add_row(
        "events out", f"{counts.read:,}", f"{rate_out:,.0f}/s", Text(sparks, style="green")
    )
    if latency is not None:
        spread = f"p99 {milliseconds_text(latency.p99_ms)}, max {milliseconds_text(latency.max_ms)}"
        grid.add_row(
            "end to end", f"p50 {milliseconds_text(latency.p50_ms)}", "", Text(spread, style="dim")
        )
    if counts.failed is not None:
        grid.add_row(Text("failed", style="bold red"), Text(counts.failed, style="red"), "", "")
    return grid


def _partitions(counts: Counts, topic: str) -> RenderableType:
    shown = _columns()
    shown.add_column("partition")
    for heading in ("written up to", "read up to", "behind"):
        shown.add_column(heading, justify="right", min_width=13)
    for partition in range(PARTITIONS):
        written = counts.written_offsets.get(partition, -1)
        read = counts.read_offsets.get(partition, -1)
        # The reader may be ahead of the acknowledgement that the writer has seen.
        shown.add_row(
            f"{topic}-{partition}", _offset(written), _offset(read), str(max(0, written - read))
        )
    return shown


def _columns() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)


def _offset(offset: int) -> str:
    return "-" if offset < 0 else f"{offset:,}"


def _events(counts: Counts) -> RenderableType:
    shown = _columns()
    shown.add_column("last events", min_width=22)
    shown.add_column("user", min_width=8)
    shown.add_column("page", min_width=14)
    shown.add_column("end to end", justify="right")
    for event in reversed(counts.last_events.copy()):
        shown.add_row(
            f"partition {event.partition} offset {event.offset:,}",
            event.user,
            event.page,
            milliseconds_text(event.latency_ms),
        )
    return shown
