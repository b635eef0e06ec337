"""Tables of the lake as Spark writes them, and what others then read."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.lake import dead_letters
from ottla.pipeline.lake.lake import Lake, LakeCommit
from ottla.pipeline.lake.maintenance import compact, vacuum
from ottla.pipeline.lake.schema import LakeError
from ottla.pipeline.lake.table import LakeTable

COLUMNS = """
    id int, n bigint, ratio double, is_set boolean, text string, bytes binary, day date,
    at timestamp, numbers array<int>, place struct<city:string,zip:int>,
    headers array<struct<key:string,value:binary>>, service string
"""
NOON = datetime.datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)
SERVICES = ["web", "a/b", "ü ñ 日本", "100%", "x=y", None]
OFFSETS = {"topic": {"0": [0, 10]}}
PARTITION_BY = ["day", "service"]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return Lake(tmp_path).table("t")


def row(number: int) -> dict[str, Any]:
    if number % 5 == 4:
        return dict.fromkeys(COLUMN_NAMES) | {"id": number}
    return {
        "id": number,
        # pandas makes a float of a bigint where some are null.
        "n": -(2**52) + number,
        "ratio": number / 3,
        "is_set": number % 2 == 0,
        "text": f"line {number}\n{'x' * 100} ☃",
        "bytes": b"\x00\xff%d" % number,
        "day": datetime.date(2026, 1, 1 + number % 2),
        "at": NOON + datetime.timedelta(microseconds=number),
        "numbers": [number, None] if number % 3 else [],
        "place": {"city": "Brno", "zip": None},
        "headers": [{"key": "k", "value": b"v"}],
        "service": SERVICES[number % len(SERVICES)],
    }


COLUMN_NAMES = [line.split()[0] for line in COLUMNS.replace("\n", " ").split(", ")]


def frame_of(spark: SparkSession, numbers: range) -> DataFrame:
    return spark.createDataFrame([row(number) for number in numbers], COLUMNS)


def append(table: LakeTable, frame: DataFrame, batch_id: int, **options: Any) -> bool:
    commit = LakeCommit("q", batch_id, OFFSETS)
    return table.append(frame, commit, partition_by=PARTITION_BY, **options)


def ids(table: LakeTable) -> list[int]:
    return sorted(table.delta().to_pyarrow_table(columns=["id"]).column("id").to_pylist())


def readings(spark: SparkSession, table: LakeTable) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What each reader says, by id."""
    delta = table.delta()
    schema = pa.schema(delta.schema().to_arrow())
    dataset = delta.to_pyarrow_dataset()
    found = {
        "deltalake": pa.table(delta.scan()).to_pylist(),
        "pyarrow": dataset.to_table().to_pylist(),
        "pandas": pa.Table.from_pandas(delta.to_pandas(), schema).to_pylist(),
        "Polars": polars.read_delta(table.uri).to_dicts(),
        "DuckDB": duckdb.from_arrow(dataset).to_arrow_table().to_pylist(),
        "Spark": table.read(spark).toArrow().to_pylist(),
    }
    for name, rows in found.items():
        yield name, sorted(rows, key=lambda one: one["id"])


def test_all_readers_read_the_same_rows(spark: SparkSession, table: LakeTable) -> None:
    """As Spark's tasks wrote them; then with files that deltalake wrote: rows with a new column,
    rows that were replaced, and compacted ones."""
    assert append(table, frame_of(spark, range(12)), 0)
    expected = [row(number) for number in range(12)]
    for name, rows in readings(spark, table):
        assert rows == expected, name
    more = frame_of(spark, range(12, 18)).selectExpr("*", "id * 2 AS twice")
    assert append(table, more, 1)
    changed = frame_of(spark, range(3, 6)).selectExpr("*", "-1 AS twice")
    keys = ["id", *PARTITION_BY]
    commit = LakeCommit("q", 2, OFFSETS)
    assert table.upsert(changed, commit, keys=keys, partition_by=PARTITION_BY)
    assert compact(table).files_removed > 0
    assert vacuum(table) == []
    expected = [
        row(number) | {"twice": -1 if 3 <= number < 6 else number * 2 if number >= 12 else None}
        for number in range(18)
    ]
    for name, rows in readings(spark, table):
        assert rows == expected, name
    assert not append(table, more, 2)


def test_partitions_and_files_are_passed_over(spark: SparkSession, table: LakeTable) -> None:
    for batch_id in range(3):
        append(table, frame_of(spark, range(batch_id * 10, batch_id * 10 + 4)), batch_id)
    delta = table.delta()
    assert delta.metadata().partition_columns == PARTITION_BY
    days = {uri.removeprefix(f"{table.uri}/").split("/")[0] for uri in delta.file_uris()}
    assert days == {"day=2026-01-01", "day=2026-01-02"}
    wanted = delta.file_uris(file_pruning_predicate="id >= 20 AND id < 24")
    assert 0 < len(wanted) < len(delta.file_uris()) / 2
    assert table.read(spark).where("id = 21").count() == 1


def test_a_batch_that_is_run_again_writes_nothing(spark: SparkSession, table: LakeTable) -> None:
    frame = frame_of(spark, range(10))
    assert append(table, frame, 0)
    files = set(Path(table.uri).rglob("*.parquet"))
    assert not append(table, frame, 0)
    assert set(Path(table.uri).rglob("*.parquet")) == files
    assert ids(table) == [*range(10)]
    (entry,) = table.delta().history()
    assert json.loads(entry["ottla.offsets"]) == {"topic": {"0": [0, 10]}}


def test_files_of_attempts_that_fail_are_not_seen(spark: SparkSession, table: LakeTable) -> None:
    """One task has written its file when the other one fails; Spark runs neither of them again."""
    assert append(table, frame_of(spark, range(4)), 0)
    failing = frame_of(spark, range(4, 50)).repartition(2, "id")
    failing = failing.selectExpr(
        "if(id = 49, raise_error('broken'), id) AS id", *(f"`{one}`" for one in COLUMN_NAMES[1:])
    )
    with pytest.raises(PySparkException, match="broken"):
        append(table, failing, 1)
    assert ids(table) == [*range(4)]
    assert append(table, frame_of(spark, range(4, 50)), 1)
    assert ids(table) == [*range(50)]
    assert table.read(spark).count() == 50


def test_no_rows_in_a_batch(spark: SparkSession, table: LakeTable) -> None:
    assert append(table, frame_of(spark, range(1)).where("id < 0"), 0)
    assert not table.exists()


def test_another_type_is_told(spark: SparkSession, table: LakeTable) -> None:
    append(table, frame_of(spark, range(2)), 0)
    changed = frame_of(spark, range(2, 4)).selectExpr("* EXCEPT (n)", "cast(n AS string) AS n")
    with pytest.raises(LakeError, match="table t: column n is int64 in the table and string in"):
        append(table, changed, 1)


def test_aggregates_are_upserted(spark: SparkSession, table: LakeTable) -> None:
    def upsert(batch_id: int, numbers: range) -> bool:
        counts = spark.range(numbers.start, numbers.stop).selectExpr("id % 4 AS k").groupBy("k")
        return table.upsert(counts.count(), LakeCommit("q", batch_id), keys=["k"])

    assert upsert(0, range(3))
    assert upsert(1, range(2, 10))
    assert not upsert(1, range(2, 10))
    rows = table.read(spark).orderBy("k").collect()
    assert list(map(tuple, rows)) == [(0, 2), (1, 2), (2, 2), (3, 2)]


def test_a_replay_replaces_the_table(spark: SparkSession, table: LakeTable) -> None:
    append(table, frame_of(spark, range(10)), 0)
    reader = table.read(spark)
    commit = LakeCommit("again", 0, is_replacing=True)
    assert table.append(frame_of(spark, range(3)), commit, partition_by=PARTITION_BY)
    assert ids(table) == [*range(3)]
    assert reader.count() == 10


def test_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    records = spark.sql(
        """
        SELECT 't' AS topic, 0 AS partition, id AS offset,
               timestamp_seconds(id * 86400) AS timestamp,
               cast(NULL AS binary) AS key, cast(cast(id AS string) AS binary) AS value
        FROM range(4)
        """
    )
    parsed = records.selectExpr(
        "*", "offset * 10 AS parsed", "if(offset % 2 = 0, 'even', NULL) AS reason"
    )
    good, bad = dead_letters.split(parsed)
    assert [one.parsed for one in good.orderBy("offset").collect()] == [10, 30]
    assert dead_letters.append(lake, bad, LakeCommit("q", 0), query="evens")
    assert not dead_letters.append(lake, bad, LakeCommit("q", 0), query="evens")
    found = lake.table("dead_letters").read(spark).orderBy("offset")
    assert found.columns == [*records.columns, "reason", "query", "day"]
    assert [(one.offset, one.value, one.reason, one.query) for one in found.collect()] == [
        (0, b"0", "even", "evens"),
        (2, b"2", "even", "evens"),
    ]
    assert [str(one.day) for one in found.collect()] == ["1970-01-01", "1970-01-03"]
