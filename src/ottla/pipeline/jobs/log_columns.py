"""Batches of records with log lines, as batches of lines. pyarrow, no Spark: Spark calls it in its
Python workers (`mapInArrow`), once for each batch of some thousand records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.jobs.log_lines import BrokenLine, Line, parse
from ottla.pipeline.jobs.times import problem_ahead

_TIME = pa.timestamp("us", "UTC")

LINES = pa.schema(
    [
        ("time", _TIME),
        ("service", pa.string()),
        ("host", pa.string()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("format", pa.string()),
        ("method", pa.string()),
        ("path", pa.string()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("fields", pa.map_(pa.string(), pa.string())),
    ]
)
"""What a line says."""

REASON = pa.field("reason", pa.string())
"""Why a record is broken, and then nothing of the line is there; null for one that is not."""

RECORD = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""Where it came from. Key and value are there for broken records only: a line is told in full."""

SERVICE_BYTES_MAX = 80
"""A service is the name of a folder: at most 255 bytes, and some characters need three there."""

UNKNOWN = "unknown"
"""The service of a line that names none, in a record without a key."""


def schema(names: Iterable[str]) -> pa.Schema:
    """Of these columns, of the line or of the record, and the reason."""
    every = {field.name: field for field in (*LINES, *RECORD)}
    return pa.schema([*(every[name] for name in names), REASON])


def parsed(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Columns as in `schema`. The batch has key, value, timestamp and what of RECORD is named."""
    outcomes = [
        _outcome(key, value, timestamp_us)
        for key, value, timestamp_us in zip(
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            batch.column("timestamp").cast(pa.int64()).to_pylist(),
            strict=True,
        )
    ]
    lines = [one.line for one in outcomes]
    reasons = pa.array([one.reason for one in outcomes], REASON.type)
    arrays = []
    for name in names:
        if name == "time":
            arrays.append(pa.array([one.time_us for one in outcomes], _TIME))
        elif name == "service":
            arrays.append(pa.array([one.service for one in outcomes], pa.string()))
        elif name == "fields":
            arrays.append(_maps([line and line.fields for line in lines]))
        elif name in LINES.names:
            place = Line._fields.index(name)
            values = [line and line[place] for line in lines]
            arrays.append(pa.array(values, LINES.field(name).type))
        elif name in ("key", "value"):
            column = batch.column(name)
            arrays.append(pc.if_else(pc.is_valid(reasons), column, pa.scalar(None, column.type)))
        else:
            arrays.append(batch.column(name))
    return pa.RecordBatch.from_arrays([*arrays, reasons], schema=schema(names))


class _Outcome(NamedTuple):
    """The line, with what its record adds to it, or the reason why there is none."""

    reason: str | None
    line: Line | None = None
    time_us: int | None = None
    service: str | None = None


def _outcome(key: bytes | None, value: bytes | None, timestamp_us: int | None) -> _Outcome:
    try:
        line = parse(value)
    except BrokenLine as error:
        return _Outcome(str(error))
    time_us = timestamp_us if line.time_us is None else line.time_us
    if time_us is not None and (problem := problem_ahead(time_us, timestamp_us)) is not None:
        return _Outcome(problem)
    service = line.service or (key or b"").decode(errors="replace") or UNKNOWN
    if len(service.encode()) > SERVICE_BYTES_MAX:
        return _Outcome(f"the name of its service has more than {SERVICE_BYTES_MAX} bytes")
    return _Outcome(None, line, time_us, service)


def _maps(found: Sequence[dict[str, str] | None]) -> pa.MapArray:
    """As pa.array makes them, but from flat lists, which is four times as quick."""
    ends = list(accumulate((len(fields or ()) for fields in found), initial=0))
    # A map is null where its offset is; the last offset is an end only.
    offsets = [
        None if fields is None else end for fields, end in zip(found, ends[:-1], strict=True)
    ]
    return pa.MapArray.from_arrays(
        pa.array([*offsets, ends[-1]], pa.int32()),
        pa.array([name for fields in found if fields for name in fields], pa.string()),
        pa.array([text for fields in found if fields for text in fields.values()], pa.string()),
    )
