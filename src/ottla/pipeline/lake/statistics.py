"""What the log of a Delta table says of a file, so that readers pass over files which cannot hold
what they look for."""

from __future__ import annotations

import datetime
import json
from typing import Any, TypeAlias

import pyarrow as pa

_COLUMNS_MAX = 32
"""As all writers of Delta do: the first columns only."""

_TEXT_CHARACTERS_MAX = 64
"""Longer ones make the log big and let nothing be passed over."""

Bound: TypeAlias = int | str | datetime.date


def statistics(metadata: Any, schema: pa.Schema) -> str:
    """JSON of the `add` action, from the metadata of a Parquet file that was just written."""
    names = [
        field.name for field in list(schema)[:_COLUMNS_MAX] if not pa.types.is_nested(field.type)
    ]
    null_counts: dict[str, int] = {}
    lows: dict[str, Bound] = {}
    highs: dict[str, Bound] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        if name not in names:
            continue
        groups = [
            metadata.row_group(group).column(index).statistics
            for group in range(metadata.num_row_groups)
        ]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        null_counts[name] = sum(group.null_count for group in groups)
        bounds = _bounds(groups, schema.field(name).type)
        if bounds is not None:
            lows[name], highs[name] = bounds
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": {name: _to_json(value) for name, value in lows.items()},
            "maxValues": {name: _to_json(value) for name, value in highs.items()},
            "nullCount": null_counts,
        },
        ensure_ascii=False,
    )


def _bounds(groups: list[Any], kind: pa.DataType) -> tuple[Bound, Bound] | None:
    """None where there are no values, or no bounds that all readers understand in one way: NaN is
    in no order that they agree on."""
    is_ordered = (
        pa.types.is_integer(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
    )
    with_values = [group for group in groups if group.has_min_max]
    # A group whose values are all null has no bounds, and needs none.
    is_whole = all(group.has_min_max or group.num_values == 0 for group in groups)
    if not is_ordered or not with_values or not is_whole:
        return None
    low, high = min(one.min for one in with_values), max(one.max for one in with_values)
    if isinstance(low, str) and max(len(low), len(high)) > _TEXT_CHARACTERS_MAX:
        return None
    return low, high


def _to_json(value: Bound) -> int | str:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, datetime.date) else value
