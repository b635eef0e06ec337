from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.pipeline.lake.schema import (
    LakeError,
    check_columns,
    check_keys,
    check_partitions,
    lake_schema,
    merged,
)

TABLE = pa.schema([("n", pa.int64()), ("s", pa.string())])


def test_all_may_be_null_and_times_are_in_utc() -> None:
    inner = pa.struct([pa.field("at", pa.timestamp("us", "Asia/Tokyo"), nullable=False)])
    found = lake_schema(
        pa.schema(
            [
                pa.field("n", pa.int64(), nullable=False),
                pa.field("l", pa.list_(pa.field("element", inner, nullable=False))),
                pa.field("m", pa.map_(pa.string(), pa.int32())),
            ]
        )
    )
    utc = pa.struct([pa.field("at", pa.timestamp("us", "UTC"))])
    assert found == pa.schema(
        [("n", pa.int64()), ("l", pa.list_(utc)), ("m", pa.map_(pa.string(), pa.int32()))]
    )


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (pa.null(), "column x is of no type.*cast"),
        (pa.timestamp("us"), "column x has no time zone.*cast it to timestamp"),
        (pa.list_(pa.duration("us")), "column x is an interval.*cast"),
    ],
)
def test_types_that_not_all_readers_know(kind: pa.DataType, problem: str) -> None:
    with pytest.raises(LakeError, match=problem):
        lake_schema(pa.schema([("x", kind)]))


def test_added_columns_come_last() -> None:
    frame = pa.schema([("new", pa.float64()), ("n", pa.int64())])
    assert merged("t", TABLE, frame).names == ["n", "s", "new"]
    assert merged("t", TABLE, pa.schema([("s", pa.string())])) == TABLE


def test_another_type_is_told_with_both() -> None:
    with pytest.raises(LakeError, match="table t: column n is int64 in the table and string in"):
        merged("t", TABLE, pa.schema([("n", pa.string())]))
    with pytest.raises(LakeError, match="has column n, and the rows bring N"):
        merged("t", TABLE, pa.schema([("N", pa.int64())]))


def test_columns_that_no_table_can_have() -> None:
    check_columns(TABLE, ["s"])
    with pytest.raises(LakeError, match=r"column 'a b'.*rename"):
        check_columns(pa.schema([("a b", pa.int64())]), [])
    with pytest.raises(LakeError, match="columns a and A have one name"):
        check_columns(pa.schema([("a", pa.int64()), ("A", pa.int64())]), [])
    with pytest.raises(LakeError, match="partition_by names x, which is no column"):
        check_columns(TABLE, ["x"])
    with pytest.raises(LakeError, match="partition_by names f, which is double"):
        check_columns(pa.schema([("f", pa.float64()), ("n", pa.int64())]), ["f"])
    with pytest.raises(LakeError, match="partition_by names all columns"):
        check_columns(TABLE, ["n", "s"])


def test_partitions_stay_as_they_are() -> None:
    check_partitions("t", ["day"], ("day",))
    with pytest.raises(LakeError, match="partitioned by day, and partition_by names no column"):
        check_partitions("t", ["day"], [])


def test_one_row_for_each_key() -> None:
    rows = pa.table({"k": [1, 1, None], "l": ["a", "b", None]})
    check_keys("t", rows, ["k", "l"])
    with pytest.raises(LakeError, match=r"several rows have the keys \{'k': 1\}"):
        check_keys("t", rows, ["k"])
    with pytest.raises(LakeError, match="keys names x, which is no column"):
        check_keys("t", rows, ["x"])
    with pytest.raises(LakeError, match="keys names no column"):
        check_keys("t", rows, [])
