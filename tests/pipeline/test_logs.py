"""The logs job: its answers worked out by hand, and those of generated lines, on real Spark."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ottla.pipeline.generate import logs as generated
from ottla.pipeline.generate.event import Event, limited
from ottla.pipeline.jobs import logs
from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.jobs.logs import JOB, error_rates, lines, parsed
from tests.support.counts import IS_FULL
from tests.support.job_runs import run_once, send, settings_of, table_rows, topic_values
from tests.support.side_by_side import SUBJECTS, Subject
from tests.support.stream_steps import StreamSteps

DAY_MS = 1_735_689_600_000  # 2025-01-01T00:00Z
WATERMARK_MS = 180_000
RECORDS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
)
PARSED = "time timestamp, service string, level string, reason string"


def at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def at_ms(time: datetime | str) -> int:
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    return (moment - at(0)) // timedelta(milliseconds=1)


def test_lines_of_every_format_in_one_shape(spark: SparkSession) -> None:
    values = [
        b'{"time":"2025-01-01T23:59:59.9Z","level":"info","message":"m","n":1}',
        b"<11>1 2025-01-02T01:00:00+01:00 h mail - - - m",
        b'::1 - - [02/Jan/2025:00:00:00 +0000] "GET /a HTTP/1.1" 503 9',
        b"\xff",
    ]
    records = [
        (bytearray(b"k"), bytearray(value), "t", 1, offset, at(DAY_MS))
        for offset, value in enumerate(values)
    ]
    found = parsed(spark.createDataFrame(records, RECORDS)).cache()
    whole = lines(found.where("reason is null"))
    rows = whole.orderBy("offset").select(
        *("day", "service", "host", "level", "message", "format", "path", "status", "bytes"),
        *("fields", "topic", "partition", "offset"),
    )
    json_line, syslog_line, access_line = rows.collect()
    assert tuple(json_line)[:6] == (date(2025, 1, 1), "k", None, "info", "m", "json")
    assert tuple(json_line)[6:] == (None, None, None, {"n": "1"}, "t", 1, 0)
    assert tuple(syslog_line)[:6] == (date(2025, 1, 2), "mail", "h", "error", "m", "syslog")
    assert syslog_line.fields == {"facility": "1", "severity": "3"}
    assert tuple(access_line)[:5] == (date(2025, 1, 2), "k", None, "error", "GET /a HTTP/1.1")
    assert tuple(access_line)[5:9] == ("common", "/a", 503, 9)
    assert access_line.fields == {"client": "::1", "protocol": "HTTP/1.1"}
    (dead,) = found.where("reason is not null").select("offset", "value", "reason").collect()
    assert tuple(dead) == (3, b"\xff", "no UTF-8: byte 0")
    found.unpersist()


def test_error_rates_are_final_when_the_watermark_has_passed(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps = StreamSteps(spark, tmp_path, PARSED, lambda rows: error_rates(rows, "3 minutes"))

    def line(time: str, level: str | None = "info", service: str = "a") -> dict[str, Any]:
        return {"time": f"2025-01-01T{time}Z", "service": service, "level": level}

    def given(*rows: dict[str, Any]) -> list[tuple[Any, ...]]:
        found = steps.given(rows)
        return sorted((f"{r.minute:%H:%M}", r.service, r.lines, r.errors, r.rate) for r in found)

    assert (
        given(
            line("00:00:00", "error"),
            line("00:00:59.999999"),
            line("00:01:00", None),
            line("00:00:30", "error", "b"),
            {"reason": "broken"},
        )
        == []
    )
    # The first minute ends where the watermark is now: it is final, also for the late ones.
    assert given(line("00:00:10", "error"), line("00:04:00")) == [
        ("00:00", "a", 3, 2, 2 / 3),
        ("00:00", "b", 1, 1, 1.0),
    ]
    # Too late for the first minute, in time for the second.
    assert given(line("00:00:20"), line("00:01:10", "warning"), line("00:05:00")) == [
        ("00:01", "a", 2, 0, 0.0)
    ]


def closing(time_ms: int) -> Event[generated.Line]:
    """A line so late that all before it is final."""
    value = b'{"time":"%s"}' % at(time_ms).isoformat().encode()
    return Event(time_ms, time_ms, b"closing", value, None)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("subject", SUBJECTS if IS_FULL else SUBJECTS[1:], indirect=True)
def test_generated_lines_come_out_as_their_truth_says(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    topic = "logs-whole"
    subject.create(topic, 3)
    settings = settings_of(JOB, subject.bootstrap, tmp_path, topic)
    events = list(limited(generated.Generator(1, 10, DAY_MS), count=20_000))
    answers = generated.truth(events)

    half = len(events) // 2
    send(subject.bootstrap, topic, events[:half])
    run_once(spark, JOB, settings)
    latest_ms = max(event.event_time_ms for event in events[:half] if event.fact)
    final = {
        minute: rate
        for minute, rate in answers.minutes.items()
        if minute[0] + 60_000 <= latest_ms - WATERMARK_MS
    }
    assert rates_of(table_rows(settings, logs.RATES_TABLE)) == final

    send(subject.bootstrap, topic, [*events[half:], closing(events[-1].arrival_ms + 300_000)])
    settings = settings_of(JOB, subject.bootstrap, tmp_path, topic, max_offsets_per_trigger=4000)
    run_once(spark, JOB, settings)
    assert rates_of(table_rows(settings, logs.RATES_TABLE)) == answers.minutes
    said = topic_values(spark, settings, logs.RATES_TOPIC)
    assert all(key == f"{value['service']} {value['minute']}" for key, value in said)
    assert rates_of([value for _, value in said]) == answers.minutes
    assert_lines(settings, events)
    lines = DeltaTable(f"{settings.lake}/{logs.LINES_TABLE}")
    assert lines.metadata().partition_columns == ["day", "service"]
    dead = table_rows(settings, "dead_letters")
    assert {row["query"] for row in dead} == {"logs.lines"}
    assert Counter((row["key"], row["value"]) for row in dead) == Counter(
        (event.key, event.value) for event in events if event.is_broken
    )


def rates_of(rows: list[dict[str, Any]]) -> dict[tuple[int, str], generated.ErrorRate]:
    found = {}
    for row in rows:
        minute = row["minute"]
        rate = generated.ErrorRate(row["lines"], row["errors"])
        assert row["rate"] == rate.rate
        found[at_ms(minute), row["service"]] = rate
    assert len(found) == len(rows), "a minute of a service is there once"
    return dict(sorted(found.items()))


def assert_lines(settings: Settings, events: list[Event[generated.Line]]) -> None:
    formats = {"nginx": "combined", "apache": "common"}
    found = Counter(
        (
            *(at_ms(row["time"]), row["day"], row["service"], row["format"], row["level"]),
            *(row["host"], row["message"]),
        )
        for row in table_rows(settings, logs.LINES_TABLE)
        if row["service"] != "closing"
    )
    assert found == Counter(
        (
            *(fact.time_ms, at(fact.time_ms).date(), fact.service),
            *(formats.get(fact.format, fact.format), fact.level, fact.host, fact.message),
        )
        for fact in (event.fact for event in events)
        if fact is not None
    )
