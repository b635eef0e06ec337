"""Records of metrics: which are whole, and why the others are not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.generate import metrics
from ottla.pipeline.generate.event import limited
from ottla.pipeline.jobs.metric_samples import SAMPLES, BrokenSample, Sample, broken, parse, whole

NEW_YEAR_US = 1_767_225_600_000_000  # 2026-01-01T00:00Z
FIELDS = {"time": "2026-01-01T00:00:00Z", "host": "a", "metric": "m", "value": 1.5}


def record(**changes: Any) -> bytes:
    return json.dumps({**FIELDS, **changes}).encode()


def reason(value: bytes | None) -> str:
    with pytest.raises(BrokenSample) as caught:
        parse(value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("1.5", 1.5),
        ("-3", -3.0),
        ("0", 0.0),
        ("1e300", 1e300),
        ("-1e300", -1e300),
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("123456789012345678901234567890", 1.2345678901234568e29),
    ],
)
def test_numbers(number: str, value: float) -> None:
    text = record().replace(b"1.5", number.encode())
    assert parse(text) == Sample(NEW_YEAR_US, "a", "m", value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "no value"),
        (b"", "no JSON: Expecting value"),
        (b"\xff", "no UTF-8: byte 0"),
        (b"[1]", "no JSON object"),
        (b"null", "no JSON object"),
        (b"[" * 100_000, "no JSON: "),
        (record()[:-2], "no JSON: "),
        (record() + b"x", "no JSON: Extra data"),
        (record(host="\ud800"), "no JSON: half a surrogate pair"),
        (b"{}", "no time"),
        (b'{"time":"2026-01-01T00:00:00Z"}', "no host"),
        (record(time=None), "time is no string"),
        (record(time=1_767_225_600), "time is no string"),
        (record(time="now"), "no time: now"),
        (record(time="2026-01-01T00:00:00"), "no zone in the time: 2026-01-01T00:00:00"),
        (record(host=7), "host is no string"),
        (record(metric=["m"]), "metric is no string"),
        (record(value="1.5"), "value is no number"),
        (record(value=True), "value is no number"),
        (record(value=None), "value is no number"),
        (record(value=float("nan")), "no JSON: NaN"),
        (record(value=float("-inf")), "no JSON: -Infinity"),
        (record().replace(b"1.5", b"1e999"), "value is beyond 1e300"),
        (record(value=1.0000001e300), "value is beyond 1e300"),
        (record(value=-(10**400)), "value is beyond 1e300"),
        (record().replace(b"1.5", b"9" * 5000), "no JSON: "),
    ],
)
def test_reasons(value: bytes | None, why: str) -> None:
    assert reason(value).startswith(why)


@given(st.binary())
def test_any_bytes_are_a_sample_or_broken(value: bytes) -> None:
    try:
        assert isinstance(parse(value), Sample)
    except BrokenSample:
        pass


@given(st.text(), st.text(), st.floats(-1e300, 1e300) | st.integers(-(10**300), 10**300))
def test_what_was_formatted_parses_back(host: str, metric: str, value: float) -> None:
    sample = parse(record(host=host, metric=metric, value=value))
    assert sample == Sample(NEW_YEAR_US, host, metric, float(value))


def batch_of(*values: bytes | None, timestamp_us: int | None = NEW_YEAR_US) -> pa.RecordBatch:
    times = pa.array([timestamp_us] * len(values), pa.timestamp("us", "UTC"))
    return pa.record_batch(
        {"value": pa.array(values, pa.binary()), "timestamp": times, "offset": range(len(values))}
    )


def test_batches_of_whole_and_broken_records() -> None:
    batch = batch_of(record(), None, record(value="x"), record(value=2, host="b"))
    found = whole(batch)
    assert found.schema == SAMPLES
    assert found.drop_columns("time").to_pylist() == [
        {"host": "a", "metric": "m", "value": 1.5},
        {"host": "b", "metric": "m", "value": 2.0},
    ]
    assert found.column("time").cast(pa.int64()).to_pylist() == [NEW_YEAR_US] * 2
    found = broken(batch)
    assert found.drop_columns(["value", "timestamp"]).to_pylist() == [
        {"offset": 1, "reason": "no value"},
        {"offset": 2, "reason": "value is no number"},
    ]
    assert whole(batch_of()).num_rows == broken(batch_of()).num_rows == 0
    assert whole(batch_of()).schema == SAMPLES


def test_a_sample_from_the_future_is_broken() -> None:
    day_us = 86_400_000_000
    assert whole(batch_of(record(), timestamp_us=NEW_YEAR_US - day_us)).num_rows == 1
    found = broken(batch_of(record(), timestamp_us=NEW_YEAR_US - day_us - 1))
    assert found.column("reason").to_pylist() == [
        "its time is more than a day after the record's timestamp"
    ]


def test_generated_records_are_what_their_facts_say() -> None:
    for event in limited(metrics.Generator(4, 20, NEW_YEAR_US // 1000), count=5000):
        if (fact := event.fact) is None:
            reason(event.value)
            continue
        expected = Sample(fact.time_ms * 1000, fact.host, fact.metric, fact.value)
        assert parse(event.value) == expected
