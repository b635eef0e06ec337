"""The most viewed pages and the most searched queries of a day, out of how often each came.
No Spark here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

TOP_COUNT = 10


@dataclass(frozen=True, slots=True)
class Place:
    """One line of a ranking."""

    day: date
    kind: str
    rank: int
    subject: str
    count: int


COLUMNS = ("day", "kind", "subject", "count")


def places(counts: Iterable[pa.RecordBatch]) -> Iterator[Place]:
    """The ten places of each day and kind, from the first; equals by name. A subject of a day has
    one row. Of all rows no more are held than those of a batch and those that may have a place: a
    day may have millions of subjects."""
    best: dict[tuple[date, str], pa.Table] = {}
    for batch in counts:
        rows = pa.Table.from_batches([batch])
        for group in rows.group_by(["day", "kind"]).aggregate([]).to_pylist():
            is_in = pc.and_(
                *(pc.equal(rows[name], pa.scalar(value)) for name, value in group.items())
            )
            of_group = rows.filter(is_in).select(["subject", "count"])
            key = group["day"], group["kind"]
            best[key] = _top(pa.concat_tables([of_group, *([best[key]] if key in best else [])]))
    for day, kind in sorted(best):
        for rank, row in enumerate(best[day, kind].to_pylist(), 1):
            yield Place(day, kind, rank, row["subject"], row["count"])


def _top(rows: pa.Table) -> pa.Table:
    order = [("count", "descending"), ("subject", "ascending")]
    return rows.take(pc.select_k_unstable(rows, TOP_COUNT, order))


def records(places: Iterable[Place]) -> Iterator[tuple[str, str]]:
    """Key and value of a record for each day and kind; a compacted topic keeps the newest."""
    for (day, kind), ranking in groupby(places, key=lambda place: (place.day, place.kind)):
        value = {
            "day": day.isoformat(),
            "kind": kind,
            "top": [{"subject": place.subject, "count": place.count} for place in ranking],
        }
        yield f"{day.isoformat()} {kind}", json.dumps(value, ensure_ascii=False)
