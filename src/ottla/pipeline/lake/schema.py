"""Schemas of lake tables: which changes are taken, and what is said of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
"""In names of columns: by the protocol of Delta."""


class LakeError(Exception):
    """What a table cannot take. Says which table, why, and what to do."""


def lake_schema(schema: pa.Schema) -> pa.Schema:
    """As tables hold it: each value may be null, since Spark says of the same column now that it
    may be and now that it may not; and timestamps are in UTC."""
    return pa.schema([pa.field(one.name, _lake_type(one.name, one.type)) for one in schema])


def _lake_type(name: str, kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        raise LakeError(f"column {name} is of no type, as NULL is; remedy: cast it to one")
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        raise LakeError(f"column {name} is an interval; remedy: cast it to a number")
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise LakeError(f"column {name} has no time zone; remedy: cast it to timestamp")
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(kind):
        return pa.list_(_lake_type(name, kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_lake_type(name, kind.key_type), _lake_type(name, kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _lake_type(name, one.type)) for one in kind])
    return kind


def check_columns(schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Of a frame by itself, whatever the table has."""
    seen: dict[str, str] = {}
    for name in schema.names:
        if _FORBIDDEN.search(name):
            raise LakeError(
                f"column {name!r}: Delta allows none of ' ,;{{}}()=' in names; remedy: rename it"
            )
        if name.lower() in seen:
            raise LakeError(
                f"columns {seen[name.lower()]} and {name} have one name: case does not tell them "
                "apart; remedy: rename one"
            )
        seen[name.lower()] = name
    for name in partition_by:
        if name not in schema.names:
            raise LakeError(f"partition_by names {name}, which is no column of the rows")
        kind = schema.field(name).type
        is_fit = (
            pa.types.is_string(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_date(kind)
            or pa.types.is_boolean(kind)
        )
        if not is_fit:
            raise LakeError(
                f"partition_by names {name}, which is {kind}; remedy: partition by a string, "
                "integer, boolean or date, e.g. by the date of a timestamp"
            )
    if len(partition_by) == len(schema.names):
        raise LakeError("partition_by names all columns; remedy: leave one for the files")


def merged(table: str, existing: pa.Schema, frame: pa.Schema) -> pa.Schema:
    """The table's columns, then those that the frame adds. A column that the frame does not have is
    null in its rows."""
    known = {name.lower(): name for name in existing.names}
    added = []
    for one in frame:
        name = known.get(one.name.lower())
        if name is None:
            added.append(one)
        elif name != one.name:
            raise LakeError(
                f"table {table} has column {name}, and the rows bring {one.name}: case does not "
                "tell them apart; remedy: rename it"
            )
        elif existing.field(name).type != one.type:
            raise LakeError(
                f"table {table}: column {name} is {existing.field(name).type} in the table and "
                f"{one.type} in the rows; remedy: cast it, or write it to a new column"
            )
    return pa.schema([*existing, *added])


def check_keys(table: str, rows: pa.Table, keys: Sequence[str]) -> None:
    """Of rows that take the place of others: one for each key, or it would be left to chance which
    of them stays."""
    for name in keys:
        if name not in rows.column_names:
            raise LakeError(f"table {table}: keys names {name}, which is no column of the rows")
    if not keys:
        raise LakeError(f"table {table}: keys names no column; remedy: append, or name some")
    counts = rows.group_by(list(keys)).aggregate([([], "count_all")])
    twice = counts.filter(pc.field("count_all") > 1).drop_columns(["count_all"])
    if twice.num_rows:
        raise LakeError(
            f"table {table}: several rows have the keys {twice.slice(0, 1).to_pylist()[0]}; "
            "remedy: name more keys, or aggregate them first"
        )


def check_partitions(table: str, existing: Iterable[str], wanted: Sequence[str]) -> None:
    if list(existing) != list(wanted):
        raise LakeError(
            f"table {table} is partitioned by {_names(existing)}, and partition_by names "
            f"{_names(wanted)}; remedy: name the same columns, or write to a new table"
        )


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "no column"
