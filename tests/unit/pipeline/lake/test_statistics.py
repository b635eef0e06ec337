from __future__ import annotations

import datetime
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.pipeline.lake.statistics import statistics

NOON = datetime.datetime(2026, 1, 1, 12, 0, 0, 250, tzinfo=datetime.UTC)


def of(table: pa.Table, row_group_rows: int = 2) -> dict[str, Any]:
    content = io.BytesIO()
    pq.write_table(table, content, row_group_size=row_group_rows)
    found = json.loads(statistics(pq.read_metadata(content), table.schema))
    assert isinstance(found, dict)
    return found


def test_bounds_are_over_all_row_groups_and_nulls_are_counted() -> None:
    table = pa.table(
        {
            "n": pa.array([5, None, 3, 9, None, None]),
            "s": ["b", "ä", "a", None, "日本", "z"],
            "day": pa.array([datetime.date(2026, 1, day) for day in range(1, 7)]),
            "at": pa.array(
                [NOON + datetime.timedelta(hours=hour) for hour in range(6)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )
    assert of(table) == {
        "numRecords": 6,
        "minValues": {
            "n": 3,
            "s": "a",
            "day": "2026-01-01",
            "at": "2026-01-01T12:00:00.000250Z",
        },
        "maxValues": {
            "n": 9,
            "s": "日本",
            "day": "2026-01-06",
            "at": "2026-01-01T17:00:00.000250Z",
        },
        "nullCount": {"n": 3, "s": 1, "day": 0, "at": 0},
    }


def test_no_bounds_where_readers_would_not_agree_on_them() -> None:
    table = pa.table(
        {
            "nan": [1.0, float("nan")],
            "long": ["x" * 65, "y"],
            "bytes": [b"a", b"b"],
            "null": pa.array([None, None], pa.int64()),
            "list": [[1], [2]],
            "struct": [{"n": 1}, {"n": 2}],
        }
    )
    found = of(table)
    assert found["minValues"] == found["maxValues"] == {}
    assert found["nullCount"] == {"nan": 0, "long": 0, "bytes": 0, "null": 2}


def test_only_the_first_columns_are_described() -> None:
    found = of(pa.table({f"c{index}": [index] for index in range(40)}))
    assert sorted(found["minValues"]) == sorted(f"c{index}" for index in range(32))
