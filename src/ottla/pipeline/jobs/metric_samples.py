"""What a host measured, from a record. Plain Python and pyarrow, no Spark: Spark calls it in its
Python workers (`mapInArrow`)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.pipeline.jobs.times import problem_ahead, time_us_of

VALUE_MAX = 1e300
"""Of a value without its sign. A window would need a hundred million such values until their sum,
and so their mean, is infinite."""

SAMPLES = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("host", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
    ]
)


class Sample(NamedTuple):
    time_us: int
    host: str
    metric: str
    value: float


class BrokenSample(ValueError):
    """The text is the reason, for the dead letters."""


def _refuse(constant: str) -> float:
    raise BrokenSample(f"no JSON: {constant}")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def parse(value: bytes | None) -> Sample:
    """Raises BrokenSample, and nothing else."""
    if value is None:
        raise BrokenSample("no value")
    fields = _decoded(value)
    time, host, metric, number = (
        _field(fields, name) for name in ("time", "host", "metric", "value")
    )
    for name, text in (("time", time), ("host", host), ("metric", metric)):
        if not isinstance(text, str):
            raise BrokenSample(f"{name} is no string")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BrokenSample("value is no number")
    # It is compared before it is made a float: an integer can be too large for one.
    if not -VALUE_MAX <= number <= VALUE_MAX:
        raise BrokenSample("value is beyond 1e300")
    try:
        return Sample(time_us_of(time), host, metric, float(number))
    except ValueError as error:
        raise BrokenSample(str(error)) from None


def _decoded(value: bytes) -> dict[str, Any]:
    try:
        text = value.decode()
        fields = _DECODER.decode(text)
        if "\\u" in text:
            # An escape can name half a character ("\ud800"), which no file can hold.
            json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise BrokenSample(f"no UTF-8: byte {error.start}") from None
    except UnicodeEncodeError:
        raise BrokenSample("no JSON: half a surrogate pair") from None
    except BrokenSample:
        raise
    except (ValueError, RecursionError) as error:
        raise BrokenSample(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BrokenSample("no JSON object")
    return fields


def _field(fields: dict[str, Any], name: str) -> Any:
    if name not in fields:
        raise BrokenSample(f"no {name}")
    return fields[name]


def whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The samples of the records that are whole; the batch has value and timestamp."""
    rows = [one for one in _outcomes(batch) if not isinstance(one, str)]
    columns = zip(*rows, strict=True) if rows else [()] * len(SAMPLES)
    arrays = [pa.array(one, field.type) for one, field in zip(columns, SAMPLES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SAMPLES)


def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records that are not, with all their columns and the reason."""
    reasons = pa.array(
        [one if isinstance(one, str) else None for one in _outcomes(batch)], pa.string()
    )
    return batch.append_column("reason", reasons).filter(reasons.is_valid())


def _outcomes(batch: pa.RecordBatch) -> list[Sample | str]:
    """A sample, or the reason why there is none."""
    timestamps_us = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return list(map(_outcome, batch.column("value").to_pylist(), timestamps_us))


def _outcome(value: bytes | None, timestamp_us: int | None) -> Sample | str:
    try:
        sample = parse(value)
    except BrokenSample as error:
        return str(error)
    return problem_ahead(sample.time_us, timestamp_us) or sample
