"""`ottla groups describe --watch`: the lag of groups over time. A table that refreshes on a
terminal, a line for each group elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.cli.groups.read import Json
from ottla.cli.short_ids import short_ids
from ottla.cli.sparkline import sparkline
from ottla.cli.tables import Column, drawn_table
from ottla.cli.watching import now_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_HISTORY = 30
_BARS = 20

Key = tuple[str, str, int]


class LagHistory:
    """The last samples of each partition's lag. Lives as long as the command."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lags: dict[Key, deque[int]] = {}
        self._times: deque[float] = deque(maxlen=_HISTORY)

    def add(self, groups: Sequence[Json]) -> None:
        self._times.append(self._clock())
        for group in groups:
            for part in group["partitions"]:
                key = (group["group"], part["topic"], part["partition"])
                lags = self._lags.setdefault(key, deque(maxlen=_HISTORY))
                if part["lag"] is not None:
                    lags.append(part["lag"])

    def line(self, key: Key) -> str:
        return sparkline(self._lags.get(key, ()))

    def rate(self, keys: Sequence[Key]) -> float | None:
        """By how much the lag of these together grows in a second; None while that is not known."""
        rates = []
        for key in keys:
            lags = self._lags.get(key, deque())
            if len(lags) < 2:
                continue
            elapsed_s = self._times[-1] - self._times[-len(lags)]
            rates.append((lags[-1] - lags[0]) / elapsed_s)
        return sum(rates) if rates else None


def trend_text(rate: float | None) -> str:
    if rate is None:
        return "-"
    if abs(rate) < 0.05:
        return "steady"
    return f"{rate:+,.1f}/s"


def show(shown: Iterator[list[Json]], *, as_json: bool) -> None:
    history = LagHistory()
    if as_json:
        for groups in shown:
            text = json.dumps({"time": now_text(), "groups": groups}, ensure_ascii=False)
            print(text, flush=True)
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.live import Live

        console = Console()
        with Live(console=console, auto_refresh=False) as live:
            for groups in shown:
                history.add(groups)
                live.update(drawn(groups, history, console.width), refresh=True)
    else:
        for groups in shown:
            history.add(groups)
            for line in plain_lines(now_text(), groups, history):
                print(line, flush=True)


def plain_lines(now: str, groups: Sequence[Json], history: LagHistory) -> list[str]:
    return [
        f"{now}  {group['group']}  {group['state']}  {_members(group)}"
        f"  lag {_number(group['lag'])}  {trend_text(history.rate(_keys(group)))}"
        for group in groups
    ]


def drawn(groups: Sequence[Json], history: LagHistory, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for group in groups:
        trend = trend_text(history.rate(_keys(group)))
        line = f"  {group['state']}, {_members(group)}, lag {_number(group['lag'])}, {trend}"
        parts += [
            Text.assemble((group["group"], "bold"), line),
            _drawn_lags(group, history, width),
            Text(),
        ]
    return Group(*parts, Text("Ctrl-C ends", style="dim"))


def _drawn_lags(group: Json, history: LagHistory, width: int) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", is_number=True),
        Column("COMMITTED", is_number=True, rank=4),
        Column("LATEST", is_number=True, rank=5),
        Column("LAG", is_number=True),
        Column("TREND", is_number=True, rank=1),
        Column("", rank=2, is_whole=True),
        Column("MEMBER", rank=3),
    ]
    owners = [part["member_id"] for part in group["partitions"] if part["member_id"]]
    names = short_ids(owners)
    rows = [
        [
            part["topic"],
            str(part["partition"]),
            _number(part["committed_offset"]),
            _number(part["latest_offset"]),
            _number(part["lag"]),
            trend_text(history.rate([key])),
            # As wide from the beginning as it will be: columns that come and go make one dizzy.
            history.line(key)[-_BARS:].rjust(_BARS),
            names.get(part["member_id"], "-"),
        ]
        for part, key in zip(group["partitions"], _keys(group), strict=True)
    ]
    return drawn_table(columns, rows, width)


def _keys(group: Json) -> list[Key]:
    return [(group["group"], part["topic"], part["partition"]) for part in group["partitions"]]


def _members(group: Json) -> str:
    count = len(group["members"])
    return f"{count} member{'' if count == 1 else 's'}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
