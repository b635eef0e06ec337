"""Which rows can be written: the columns and types of Spark's own Kafka sink. Needs Spark's types.

Columns of other names are left out, as Spark's sink does."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.pipeline.sink.packing import is_packed
from ottla.pipeline.sink.write_options import WriteOptions

_TEXT: tuple[type[DataType], ...] = (StringType, BinaryType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "value": _TEXT,
    "key": _TEXT,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType,),
}
_HEADERS = "array<struct<key:string,value:binary>>"


class ColumnError(ValueError):
    """Says which column it is about, what is wrong with it, and what to do."""

    def __init__(self, column: str, problem: str, remedy: str) -> None:
        super().__init__(f"column {column}: {problem}; {remedy}")


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Raises ColumnError."""
    types = {field.name: field.dataType for field in schema}
    if is_packed(schema.names):
        return  # `placed` has looked at what is in it.
    if "value" not in types:
        raise ColumnError("value", "is missing", "every row needs one, which may be null")
    if options.topic is None and "topic" not in types:
        raise ColumnError("topic", "is missing", "add it, or set option topic for all rows")
    if not options.has_timestamps:
        types.pop("timestamp", None)
    elif "timestamp" not in types:
        raise ColumnError("timestamp", "is missing", "add it, or remove option includeTimestamp")
    for name, wanted in _TYPES.items():
        if name in types and not isinstance(types[name], wanted):
            names = " or ".join(kind.typeName() for kind in wanted)
            raise ColumnError(name, f"is {types[name].simpleString()}", f"cast it to {names}")
    if "headers" in types and not _is_headers(types["headers"]):
        raise ColumnError(
            "headers", f"is {types['headers'].simpleString()}", f"cast it to {_HEADERS}"
        )


def _is_headers(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and kind.simpleString() == _HEADERS
