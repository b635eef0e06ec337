from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from ottla.pipeline.lake import dead_letters
from ottla.pipeline.lake.lake import Lake, LakeCommit
from ottla.pipeline.lake.schema import LakeError
from tests.support.arrow_frame import arrow_frame

LATE = datetime.datetime(2026, 1, 1, 23, 59, tzinfo=datetime.UTC)


def parsed(*reasons: str | None) -> DataFrame:
    count = len(reasons)
    times = [LATE + datetime.timedelta(minutes=one) for one in range(count)]
    return arrow_frame(
        pa.table(
            {
                "page": ["/"] * count,
                "topic": ["t"] * count,
                "partition": pa.array([0] * count, pa.int32()),
                "offset": [*range(count)],
                "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
                "key": pa.array([None] * count, pa.binary()),
                "value": [b"%d" % one for one in range(count)],
                "reason": pa.array(reasons, pa.string()),
            }
        )
    )


def rows(lake: Lake) -> list[dict[str, Any]]:
    table = lake.table("dead_letters").delta().to_pyarrow_table()
    found: list[dict[str, Any]] = table.sort_by("offset").to_pylist()
    return found


def test_rows_with_a_reason_are_dead_letters(tmp_path: Path) -> None:
    good, bad = dead_letters.split(parsed("no JSON", None, "no page"))
    assert [row.offset for row in good.collect()] == [1]
    assert "reason" not in good.schema.names
    lake = Lake(tmp_path)
    assert dead_letters.append(lake, bad, LakeCommit("q", 0), query="views")
    assert rows(lake) == [
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "timestamp": LATE + datetime.timedelta(minutes=offset),
            "key": None,
            "value": b"%d" % offset,
            "reason": reason,
            "query": "views",
            "day": day,
        }
        for offset, reason, day in [
            (0, "no JSON", datetime.date(2026, 1, 1)),
            (2, "no page", datetime.date(2026, 1, 2)),
        ]
    ]
    assert not dead_letters.append(lake, bad, LakeCommit("q", 0), query="views")


def test_queries_share_the_table_and_replay_their_own(tmp_path: Path) -> None:
    lake, (_, bad) = Lake(tmp_path), dead_letters.split(parsed("bad"))
    for name in ("a", "b"):
        assert dead_letters.append(lake, bad, LakeCommit(name, 0), query=name)
    _, none = dead_letters.split(parsed(None))
    again = LakeCommit("again", 0, is_replacing=True)
    assert dead_letters.append(lake, none, again, query="a")
    assert [row["query"] for row in rows(lake)] == ["b"]


def test_a_query_has_a_plain_name(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no name of a query"):
        dead_letters.append(Lake(tmp_path), parsed("bad"), LakeCommit("q", 0), query="it's")
