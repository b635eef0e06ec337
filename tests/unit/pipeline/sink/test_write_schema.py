from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.sink.write_schema import ColumnError, check_schema

TEXT, BINARY, INT, TIMESTAMP = StringType(), BinaryType(), IntegerType(), TimestampType()
HEADERS = ArrayType(StructType().add("key", TEXT).add("value", BINARY))
OTHER_HEADERS = ArrayType(StructType().add("key", TEXT).add("value", TEXT))
TEXT_OF_HEADERS = "array<struct<key:string,value:binary>>"


def check(columns: dict[str, DataType], **options: str) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    check_schema(schema, WriteOptions.parse({"kafka.bootstrap.servers": "a:9092", **options}))


@pytest.mark.parametrize(
    "columns",
    [
        {"value": TEXT},
        {"value": BINARY, "key": TEXT},
        {"key": BINARY, "value": BINARY, "topic": TEXT, "partition": INT, "headers": HEADERS},
        {"value": TEXT, "other": LongType(), "timestamp": INT},
    ],
)
def test_rows_that_can_be_written(columns: dict[str, DataType]) -> None:
    check(columns, topic="clicks")
    check({**columns, "timestamp": TIMESTAMP}, topic="clicks", includeTimestamp="true")


def test_each_row_may_name_its_topic() -> None:
    check({"value": TEXT, "topic": TEXT})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": None}, "column value: is missing"),
        ({"topic": None}, "column topic: is missing; add it, or set option topic"),
        ({"value": INT}, "column value: is int; cast it to string or binary"),
        ({"topic": BINARY}, "column topic: is binary; cast it to string"),
        ({"key": LongType()}, "column key: is bigint"),
        ({"partition": LongType()}, "column partition: is bigint; cast it to integer"),
        ({"headers": TEXT}, f"column headers: is string; cast it to {TEXT_OF_HEADERS}"),
        ({"headers": OTHER_HEADERS}, f"cast it to {TEXT_OF_HEADERS}"),
    ],
)
def test_an_error_names_the_column_and_the_remedy(
    columns: dict[str, DataType | None], words: str
) -> None:
    merged = {"value": TEXT, "topic": TEXT, **columns}
    with pytest.raises(ColumnError) as raised:
        check({name: kind for name, kind in merged.items() if kind is not None})
    assert words in str(raised.value)


def test_timestamps_that_are_asked_for_must_be_there() -> None:
    with pytest.raises(ColumnError, match="column timestamp: is missing"):
        check({"value": TEXT}, topic="clicks", includeTimestamp="true")
    with pytest.raises(ColumnError, match="column timestamp: is string"):
        check({"value": TEXT, "timestamp": TEXT}, topic="clicks", includeTimestamp="true")
