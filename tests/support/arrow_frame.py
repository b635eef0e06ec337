"""Frames without Spark, for what writes frames to the lake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.pandas.types import from_arrow_schema


class _Nowhere:
    """A writer of the only format that needs no Spark."""

    def format(self, name: str) -> _Nowhere:
        assert name == "noop"
        return self

    def mode(self, _: str) -> _Nowhere:
        return self

    def save(self) -> None:
        pass


class ArrowFrame:
    """A table of Arrow that looks like a frame of one partition. SQL in it is run by DuckDB, so it
    has to be what both understand."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.schema = from_arrow_schema(table.schema)
        self.write = _Nowhere()

    def toArrow(self) -> pa.Table:
        return self._table

    def mapInArrow(self, function: Any, schema: str) -> ArrowFrame:
        batches: Iterator[pa.RecordBatch] = function(iter(self._table.to_batches()))
        return ArrowFrame(pa.Table.from_batches(batches))

    def where(self, condition: str) -> ArrowFrame:
        return self._queried(f"SELECT * FROM frame WHERE {condition}")

    def selectExpr(self, *expressions: str) -> ArrowFrame:
        return self._queried(f"SELECT {', '.join(expressions)} FROM frame")

    def select(self, *names: str) -> ArrowFrame:
        return ArrowFrame(self._table.select(list(names)))

    def drop(self, *names: str) -> ArrowFrame:
        return ArrowFrame(self._table.drop_columns(list(names)))

    def _queried(self, query: str) -> ArrowFrame:
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            database.register("frame", self._table)
            return ArrowFrame(database.sql(query).to_arrow_table())

    def collect(self) -> list[Row]:
        return [Row(**row) for row in self._table.to_pylist()]


def arrow_frame(table: pa.Table) -> DataFrame:
    return cast(DataFrame, ArrowFrame(table))
