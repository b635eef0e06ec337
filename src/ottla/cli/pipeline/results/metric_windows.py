"""Windows of metrics, out of the lake: they are in no topic."""

from __future__ import annotations

import importlib.util
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from ottla.cli.pipeline.results.minutes import MINUTES_SHOWN

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow import Table

Json = dict[str, Any]

_TABLE = "metrics"
_LENGTH = "1m"


def windows_in(lake: str) -> list[Json]:
    """Of the last minutes that the lake has, by metric, over all hosts. Nothing where there is no
    such table, or no deltalake to read it with."""
    if importlib.util.find_spec("deltalake") is None:
        return []
    from ottla.pipeline.lake.lake import Lake

    table = Lake(lake).table(_TABLE)
    if not table.exists():
        return []
    return by_metric(_newest(table.delta()))


def _newest(delta: DeltaTable) -> Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    dataset = delta.to_pyarrow_dataset()
    # Days are partitions: only the files of the last two are opened for their times.
    days = sorted({str(part["day"]) for part in delta.partitions()})
    since = date.fromisoformat(days[-2:][0])
    found = dataset.to_table(
        columns=["window_start", "host", "metric", "count", "mean", "p99"],
        filter=(pc.field("window_length") == _LENGTH) & (pc.field("day") >= pa.scalar(since)),
    )
    newest = pc.max(found["window_start"]).as_py()
    if newest is None:
        return found
    oldest = pa.scalar(
        newest - timedelta(minutes=MINUTES_SHOWN - 1), found.schema.field("window_start").type
    )
    return found.filter(pc.field("window_start") >= oldest)


def by_metric(windows: Table) -> list[Json]:
    """The mean of each minute, and the highest p99 of any host in it."""
    metrics: dict[str, dict[Any, list[Json]]] = {}
    hosts: dict[str, set[str]] = {}
    for row in windows.to_pylist():
        minutes = metrics.setdefault(row["metric"], {})
        minutes.setdefault(row["window_start"], []).append(row)
        hosts.setdefault(row["metric"], set()).add(row["host"])
    return [
        {
            "metric": metric,
            "hosts": len(hosts[metric]),
            "minutes": [
                {
                    "start": f"{start:%Y-%m-%dT%H:%M:%S}.000Z",
                    "mean": sum(row["mean"] * row["count"] for row in rows)
                    / sum(row["count"] for row in rows),
                    "p99": max(row["p99"] for row in rows),
                }
                for start, rows in sorted(minutes.items())
            ],
        }
        for metric, minutes in sorted(metrics.items())
    ]
