"""Batches of log lines as columns."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from ottla.pipeline.generate import logs
from ottla.pipeline.generate.event import limited
from ottla.pipeline.jobs.log_columns import LINES, RECORD, parsed, schema

NEW_YEAR_US = 1_767_225_600_000_000  # 2026-01-01T00:00Z
TIME = pa.timestamp("us", "UTC")
ALL = (*LINES.names, *RECORD.names)


def batch_of(
    *records: tuple[bytes | None, bytes | None], timestamp_us: int | None = NEW_YEAR_US
) -> pa.RecordBatch:
    count = len(records)
    return pa.record_batch(
        {
            "key": pa.array([key for key, _ in records], pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
            "topic": pa.array(["t"] * count, pa.string()),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([timestamp_us] * count, TIME),
        }
    )


def test_lines_and_broken_records_in_one_batch() -> None:
    logfmt = b'time=2026-01-01T00:00:00.5Z level=error host=h msg="m" a=1 b=2'
    access = b'::1 - - [01/Jan/2026:00:00:00 +0000] "GET /a HTTP/1.1" 200 9'
    found = parsed(batch_of((b"cart", logfmt), (b"\xff", b"?"), (b"edge", access)), ALL)
    found.validate(full=True)
    assert found.schema == schema(ALL)
    rows = found.drop_columns(["time", "timestamp"]).to_pylist()
    nothing = dict.fromkeys(("key", "value", "reason"))
    source = {"topic": "t", "partition": 3}
    no_access = dict.fromkeys(("method", "path", "status", "bytes"))
    assert rows == [
        {
            "service": "cart",
            "host": "h",
            "level": "error",
            "message": "m",
            "format": "logfmt",
            **no_access,
            "fields": [("a", "1"), ("b", "2")],
            **source,
            "offset": 0,
            **nothing,
        },
        {
            **dict.fromkeys(LINES.names[1:]),
            **source,
            "offset": 1,
            "key": b"\xff",
            "value": b"?",
            "reason": "neither JSON, syslog, an access line nor logfmt with a time",
        },
        {
            "service": "edge",
            "host": None,
            "level": "info",
            "message": "GET /a HTTP/1.1",
            "format": "common",
            "method": "GET",
            "path": "/a",
            "status": 200,
            "bytes": 9,
            "fields": [("client", "::1"), ("protocol", "HTTP/1.1")],
            **source,
            "offset": 2,
            **nothing,
        },
    ]
    assert found.column("time").cast(pa.int64()).to_pylist() == [
        NEW_YEAR_US + 500_000,
        None,
        NEW_YEAR_US,
    ]


def test_only_the_columns_that_are_asked_for() -> None:
    found = parsed(batch_of((b"cart", b"time=2026-01-01T00:00:00Z")), ("level", "service"))
    assert found.to_pylist() == [{"level": None, "service": "cart", "reason": None}]
    assert parsed(batch_of(), ALL).num_rows == 0


def test_the_service_is_that_of_the_line_or_else_the_key() -> None:
    named, unnamed = b"time=2026-01-01T00:00:00Z service=a", b"time=2026-01-01T00:00:00Z"
    keys = (b"k", named), (b"k", unnamed), (None, unnamed), (b"", unnamed), (b"\xff", unnamed)
    found = parsed(batch_of(*keys), ("service",))
    assert found.column("service").to_pylist() == ["a", "k", "unknown", "unknown", "\ufffd"]


def test_a_service_whose_name_no_folder_can_have_is_broken() -> None:
    line = "time=2026-01-01T00:00:00Z service="
    values = [f"{line}{'é' * 40}".encode(), f"{line}{'é' * 40}a".encode()]
    found = parsed(batch_of(*((None, value) for value in values)), ("service",))
    assert found.to_pylist() == [
        {"service": "é" * 40, "reason": None},
        {"service": None, "reason": "the name of its service has more than 80 bytes"},
    ]


def test_the_time_is_that_of_the_line_or_else_of_the_record() -> None:
    values = b"<0>1 - - - - - -", b"<0>1 1970-01-01T00:00:00Z - - - - -"
    found = parsed(batch_of(*((None, value) for value in values)), ("time",))
    assert found.column("time").cast(pa.int64()).to_pylist() == [NEW_YEAR_US, 0]


def test_a_line_from_the_future_is_broken() -> None:
    day_us = 86_400_000_000
    line = b"time=2026-01-01T00:00:00Z"
    found = parsed(batch_of((None, line), timestamp_us=NEW_YEAR_US - day_us), ("value",))
    assert found.to_pylist() == [{"value": None, "reason": None}]
    found = parsed(batch_of((None, line), timestamp_us=NEW_YEAR_US - day_us - 1), ("value",))
    reason = "its time is more than a day after the record's timestamp"
    assert found.to_pylist() == [{"value": line, "reason": reason}]


def test_generated_lines_are_what_their_truth_says() -> None:
    events = list(limited(logs.Generator(5, 20, NEW_YEAR_US // 1000), count=5000))
    answers = logs.truth(events)
    found = parsed(batch_of(*((e.key, e.value) for e in events)), ALL)
    services = Counter(found.column("service").drop_null().to_pylist())
    expected: Counter[str] = Counter()
    for (_, service), lines in answers.lines.items():
        expected[service] += lines
    assert services == expected
    assert len(found.column("reason").drop_null()) == answers.broken
