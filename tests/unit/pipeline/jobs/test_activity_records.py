"""What is a record of the activity pipeline, and what is wrong with those that are none."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.generate.activity import Generator
from ottla.pipeline.generate.event import limited
from ottla.pipeline.jobs.activity_records import actions, parsed

MIDNIGHT = datetime(2026, 1, 1)
TIME = "2026-01-01T00:00:00.064Z"
VIEW = {"id": "a-1", "type": "page_view", "time": TIME, "user": "ada", "page": "/docs"}
SEARCH = {"type": "search", "time": TIME, "user": "ada", "query": "red shoes"}
CLICK = {"type": "click", "time": TIME, "user": "ada", "page": "/docs", "target": "buy"}

NO_OBJECT = "not a JSON object"
NO_TYPE = "type is none of page_view, search, click"
AHEAD = "its time is more than a day after the record's timestamp"
NO_TIME = "time is none like 2026-01-01T00:00:00.064Z"


def changed(record: dict[str, str], **fields: object) -> bytes:
    return json.dumps({**record, **fields}).encode()


def without(record: dict[str, str], name: str) -> bytes:
    return json.dumps({key: value for key, value in record.items() if key != name}).encode()


GOOD = changed(VIEW)
BROKEN = [
    (None, "no value"),
    (b"\xff\xfe" + GOOD, "not UTF-8"),
    (GOOD.replace(b"ada", b"\xe9da"), "not UTF-8"),
    (changed(VIEW).decode().encode("utf-16"), "not UTF-8"),
    (b"", NO_OBJECT),
    (b" ", NO_OBJECT),
    (GOOD[:-2], NO_OBJECT),
    (GOOD[:-1] + b",}", NO_OBJECT),
    (GOOD.replace(b'"', b"'"), NO_OBJECT),
    (GOOD.replace(b'"user"', b"user"), NO_OBJECT),
    (GOOD.replace(b'"ada"', b"NaN"), NO_OBJECT),
    (GOOD.replace(b"ada", b"a\tda"), NO_OBJECT),
    (b"\xef\xbb\xbf" + GOOD, NO_OBJECT),
    (b"null", NO_OBJECT),
    (b"5", NO_OBJECT),
    (b'"page_view"', NO_OBJECT),
    (b"[" + GOOD + b"]", NO_OBJECT),
    # Spark's own parser would take the first value and never see the rest.
    (GOOD + b" and more", NO_OBJECT),
    (GOOD + GOOD, NO_OBJECT),
    (GOOD + b"," + GOOD, NO_OBJECT),
    (GOOD + b"]", NO_OBJECT),
    (GOOD + b',{"_seal":"1"}]', NO_OBJECT),
    (GOOD + b"\x00", NO_OBJECT),
    (b"{}", "type is missing"),
    (without(VIEW, "type"), "type is missing"),
    (changed(VIEW, type=None), "type is missing"),
    (changed(VIEW, type=""), "type is missing"),
    (changed(VIEW, type="page_veiw"), NO_TYPE),
    (changed(VIEW, type="PAGE_VIEW"), NO_TYPE),
    (changed(VIEW, type=7), NO_TYPE),
    (without(VIEW, "time"), "time is missing"),
    (changed(VIEW, time="yesterday"), NO_TIME),
    (changed(VIEW, time="2026"), NO_TIME),
    (changed(VIEW, time="2026-01-01"), NO_TIME),
    (changed(VIEW, time="2026-01-01 00:00:00Z"), NO_TIME),
    (changed(VIEW, time="2026-01-01T00:00:00"), NO_TIME),
    (changed(VIEW, time="2026-01-01T00:00:00+01:00"), NO_TIME),
    (changed(VIEW, time="2026-01-01T00:00:00Z\n"), NO_TIME),
    (changed(VIEW, time="2026-02-30T00:00:00Z"), NO_TIME),
    (changed(VIEW, time="2026-01-01T25:00:00Z"), NO_TIME),
    (changed(VIEW, time=1767225600064), NO_TIME),
    (changed(VIEW, time="2026-01-02T00:00:00.000001Z"), AHEAD),
    (changed(VIEW, time="9999-12-31T23:59:59Z"), AHEAD),
    (without(VIEW, "user"), "user is missing"),
    (changed(VIEW, user=""), "user is missing"),
    (without(VIEW, "page"), "page is missing"),
    (changed(VIEW, page=None, query="x"), "page is missing"),
    (without(SEARCH, "query"), "query is missing"),
    (without(CLICK, "page"), "page is missing"),
    (without(CLICK, "target"), "target is missing"),
    # The first thing that is wrong.
    (b'{"type":"search"}', "time is missing"),
]


def rows_of(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    """Records of midnight, the first of January."""
    rows = [(number, MIDNIGHT, value) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, "offset long, timestamp timestamp, value binary")


@pytest.fixture(scope="module")
def reasons(spark: SparkSession) -> list[str | None]:
    """All in one go: one is as slow as all of them."""
    rows = parsed(rows_of(spark, [value for value, _ in BROKEN])).orderBy("offset").collect()
    assert [row.value for row in rows] == [value for value, _ in BROKEN]
    return [row.reason for row in rows]


@pytest.mark.parametrize(
    ("number", "value", "reason"),
    [(number, value, reason) for number, (value, reason) in enumerate(BROKEN)],
)
def test_a_broken_record_has_the_reason(
    reasons: list[str | None], number: int, value: bytes | None, reason: str
) -> None:
    assert reasons[number] == reason


def test_fields_of_good_records(spark: SparkSession) -> None:
    values: list[bytes | None] = [
        GOOD,
        b" \n" + changed(SEARCH, time="2026-01-01T00:00:00Z", query="größe 42") + b"\n",
        changed(CLICK, time="2026-01-01T23:59:59.999999Z", extra={"a": [1, {"b": None}]}),
        # A number is taken for its text; the last of two of a name counts.
        changed(VIEW, user=42, id=None)[:-1] + b',"page":"/2"}',
        # A day ahead, and no more.
        changed(VIEW, time="2026-01-02T00:00:00Z"),
    ]

    rows = parsed(rows_of(spark, values)).orderBy("offset").collect()

    soon, last = MIDNIGHT.replace(microsecond=64_000), datetime(2026, 1, 1, 23, 59, 59, 999_999)
    assert [tuple(row)[3:] for row in rows] == [
        ("a-1", "page_view", soon, "ada", "/docs", None, None, None),
        (None, "search", MIDNIGHT, "ada", None, "größe 42", None, None),
        (None, "click", last, "ada", "/docs", None, "buy", None),
        (None, "page_view", soon, "42", "/2", None, None, None),
        ("a-1", "page_view", datetime(2026, 1, 2), "ada", "/docs", None, None, None),
    ]


def test_actions_of_generated_records_are_their_facts(spark: SparkSession) -> None:
    """And of the broken ones there are none."""
    events = list(limited(Generator(7, 20.0, 1_767_225_600_000), count=2000))

    rows = actions(rows_of(spark, [event.value for event in events]))

    found = rows.selectExpr("unix_millis(time)", "type", "user", "subject").collect()
    facts = [event.fact for event in events if event.fact is not None]
    assert len(facts) < len(events)
    assert sorted(map(tuple, found)) == sorted(
        (fact.time_ms, fact.type, fact.user, fact.subject) for fact in facts
    )
