"""Frames without Spark, for what writes frames to the lake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.pandas.types import from_arrow_schema


class ArrowFrame:
    """A table of Arrow that looks like a frame: one partition, and its rows are handed on as they
    are."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.schema = from_arrow_schema(table.schema)

    def toArrow(self) -> pa.Table:
        return self._table

    def mapInArrow(self, function: Any, schema: str) -> ArrowFrame:
        batches: Iterator[pa.RecordBatch] = function(iter(self._table.to_batches()))
        return ArrowFrame(pa.Table.from_batches(batches))

    def collect(self) -> list[Row]:
        return [Row(**row) for row in self._table.to_pylist()]


def arrow_frame(table: pa.Table) -> DataFrame:
    return cast(DataFrame, ArrowFrame(table))
