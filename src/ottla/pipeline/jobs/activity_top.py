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


def places(counts: pa.Table) -> Iterator[Place]:
    """The ten places of each day and kind, from the first; equals by name. `counts` has day, kind,
    subject and count."""
    order = [("count", "descending"), ("subject", "ascending")]
    groups = counts.group_by(["day", "kind"]).aggregate([]).to_pylist()
    for group in sorted(groups, key=lambda one: (one["day"], one["kind"])):
        is_in = pc.and_(
            *(pc.equal(counts[name], pa.scalar(value)) for name, value in group.items())
        )
        of_group = counts.filter(is_in)
        top = of_group.take(pc.select_k_unstable(of_group, TOP_COUNT, order))
        for rank, row in enumerate(top.select(["subject", "count"]).to_pylist(), 1):
            yield Place(group["day"], group["kind"], rank, row["subject"], row["count"])


def records(places: Iterable[Place]) -> Iterator[tuple[str, str]]:
    """Key and value of a record for each day and kind; a compacted topic keeps the newest."""
    for (day, kind), ranking in groupby(places, key=lambda place: (place.day, place.kind)):
        value = {
            "day": day.isoformat(),
            "kind": kind,
            "top": [{"subject": place.subject, "count": place.count} for place in ranking],
        }
        yield f"{day.isoformat()} {kind}", json.dumps(value, ensure_ascii=False)
