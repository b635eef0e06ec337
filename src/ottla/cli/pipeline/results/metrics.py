"""What the metrics pipeline has found out: alarms, and the windows of the last minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.cli.pipeline.results.metric_windows import windows_in
from ottla.cli.pipeline.results.minutes import MINUTES_SHOWN, last_minutes
from ottla.cli.sparkline import sparkline
from ottla.cli.tables import Column, print_facts, print_table

Json = dict[str, Any]

(ALARMS,) = TOPICS = ("metrics-alarms",)
_NEWEST_MAX = 20

_COLUMNS = [
    Column("WINDOW"),
    Column("LENGTH", rank=4),
    Column("RULE"),
    Column("HOST"),
    Column("METRIC", rank=3),
    Column("VALUE", is_number=True, rank=1),
    Column("LIMIT", is_number=True, rank=2),
]


_WINDOW_COLUMNS = [
    Column("A MINUTE"),
    Column("HOSTS", is_number=True, rank=2),
    Column("MEAN", is_number=True),
    Column("P99", is_number=True),
    Column(f"MEAN OF THE LAST {MINUTES_SHOWN} MINUTES", rank=1, is_whole=True),
]


def found_in(values: Mapping[str, Sequence[Json]], lake: str) -> Json:
    """Alarms, the newest first; windows are in the lake only."""
    alarms = sorted(
        values.get(ALARMS, ()), key=lambda alarm: str(alarm["window_start"]), reverse=True
    )
    return {"alarms": alarms, "windows": windows_in(lake)}


def is_empty(found: Json) -> bool:
    return not found["alarms"] and not found["windows"]


def print_found(found: Json) -> None:
    alarms, windows = found["alarms"], found["windows"]
    hosts = {alarm["host"] for alarm in alarms}
    count = f"{len(hosts):,} host{'' if len(hosts) == 1 else 's'}"
    print_facts([("alarms", f"{len(alarms):,} of {count}")])
    if windows:
        print()
        _print_windows(windows)
    if alarms:
        print()
        _print_alarms(alarms)


def _print_windows(windows: Sequence[Json]) -> None:
    rows = []
    for one in windows:
        newest = one["minutes"][-1]
        shown = last_minutes({minute["start"]: minute["mean"] for minute in one["minutes"]})
        rows.append(
            [
                one["metric"],
                f"{one['hosts']:,}",
                f"{newest['mean']:,.4g}",
                f"{newest['p99']:,.4g}",
                sparkline(shown),
            ]
        )
    print_table(_WINDOW_COLUMNS, rows)


def _print_alarms(alarms: Sequence[Json]) -> None:
    rows = [
        [
            alarm["window_start"].replace("T", " ").removesuffix(".000Z"),
            alarm["window_length"],
            alarm["rule"],
            alarm["host"],
            f"{alarm['aggregate']}({alarm['metric']})",
            f"{alarm['value']:.4g}",
            f"{'>' if alarm['is_above'] else '<'} {alarm['threshold']:.4g}",
        ]
        for alarm in alarms[:_NEWEST_MAX]
    ]
    print_table(_COLUMNS, rows)
    if len(alarms) > _NEWEST_MAX:
        print(f"The newest {_NEWEST_MAX} of {len(alarms):,}; --json has them all.")
