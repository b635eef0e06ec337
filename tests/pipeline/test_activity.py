"""The activity pipeline, whole: generated records through the broker and Spark, and its answers
compared with the generator's own."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.generate.activity import SESSION_GAP_MS, Action, Generator, Truth, truth
from ottla.pipeline.generate.event import Event, limited
from ottla.pipeline.generate.rhythm import MINUTE_MS
from ottla.pipeline.generate.times import iso_of
from ottla.pipeline.jobs.activity import JOB
from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.lake.lake import Lake
from ottla.pipeline.run.replay import Replay, begin_replay
from ottla.pipeline.run.runner import JobRun
from ottla.pipeline.run.settings import new_settings
from tests.support.counts import IS_FULL, count
from tests.support.job_runs import after_all_so_far
from tests.support.markers import wait_for_markers
from tests.support.side_by_side import SUBJECTS, Subject

# In the evening, so that the events are of two days; at this rate they take 80 minutes.
START_MS = 1_767_225_600_000 - 30 * MINUTE_MS
RATE = 6.0
EVENTS = count(full=100_000, quick=20_000)
WATERMARK_MS = 3 * MINUTE_MS

Events = list[Event[Action]]


def produce(subject: Subject, topic: str, events: Events) -> None:
    """By key: the actions of a user are in one partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": subject.bootstrap})
    for number, event in enumerate(events):
        producer.produce(topic, event.value, event.key)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def run_once(spark: SparkSession, settings: Settings, batches_max: int | None = None) -> int:
    """Until all that is there is read, or is stopped in the middle of it, when so many batches are
    done. Says how many were."""
    done: list[object] = []
    run = JobRun(JOB, settings, spark, is_once=True, on_batch=done.append)
    try:
        run.start()
        while run.poll():
            if batches_max is not None and len(done) >= batches_max:
                break
            time.sleep(0.05)
    finally:
        run.close()
    return len(done)


def rows_of(settings: Settings, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        Lake(settings.lake).table(table).delta().to_pyarrow_table().to_pylist()
    )
    return rows


def records_of(spark: SparkSession, subject: Subject, topic: str) -> list[tuple[str, Any]]:
    """In their order, which keys of one partition have."""
    wait_for_markers(subject.bootstrap, topic)
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", subject.bootstrap)
    rows = reader.option("subscribe", topic).load().orderBy("partition", "offset").collect()
    return [(bytes(row.key).decode(), json.loads(row.value)) for row in rows]


def ms_of(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1000)


def final_sessions(answers: Truth, events: Events) -> Counter[Any]:
    """Those whose end the watermark has passed, with the gap in which more could have come; of the
    others nothing is known yet."""
    last_ms = max(event.fact.time_ms for event in events if event.fact is not None)
    return Counter(
        (one.user, one.start_ms, one.end_ms, one.actions, one.page_views)
        for one in answers.sessions
        if one.end_ms + SESSION_GAP_MS <= last_ms - WATERMARK_MS
    )


def check_tables(settings: Settings, events: Events) -> None:
    answers = truth(events)
    expected_traffic = {
        (window, start_ms): (one.page_views, one.visitors)
        for window, found in (("minute", answers.minutes), ("day", answers.days))
        for start_ms, one in found.items()
    }
    rows = rows_of(settings, "activity_traffic")
    assert len(rows) == len(expected_traffic)
    assert {
        (row["window"], ms_of(row["start"])): (row["page_views"], row["visitors"]) for row in rows
    } == expected_traffic
    assert Counter(
        (
            row["user"],
            ms_of(row["start"]),
            ms_of(row["end"]),
            row["actions"],
            row["page_views"],
        )
        for row in rows_of(settings, "activity_sessions")
    ) == final_sessions(answers, events)
    top = sorted(rows_of(settings, "activity_top"), key=lambda row: row["rank"])
    for kind, rankings in (("page", answers.top_pages), ("search", answers.top_searches)):
        assert {row["day"] for row in top if row["kind"] == kind} == {
            datetime.fromtimestamp(day_ms / 1000, UTC).date() for day_ms in rankings
        }
        for day_ms, ranking in rankings.items():
            day = datetime.fromtimestamp(day_ms / 1000, UTC).date()
            assert [
                (row["subject"], row["count"])
                for row in top
                if (row["day"], row["kind"]) == (day, kind)
            ] == ranking
    assert len(rows_of(settings, "dead_letters")) == answers.broken
    facts = Counter(event.fact for event in events if event.fact is not None)
    assert (
        Counter(
            Action(ms_of(row["time"]), row["type"], row["user"], row["page"] or row["query"])
            for row in rows_of(settings, "activity")
        )
        == facts
    )


def check_topics(spark: SparkSession, subject: Subject, prefix: str, events: Events) -> None:
    answers = truth(events)
    newest = dict(records_of(spark, subject, f"{prefix}activity-traffic"))
    assert newest == {
        f"{window} {iso_of(start_ms)}": {
            "window": window,
            "start": iso_of(start_ms),
            "page_views": one.page_views,
            "visitors": one.visitors,
        }
        for window, found in (("minute", answers.minutes), ("day", answers.days))
        for start_ms, one in found.items()
    }
    sessions = records_of(spark, subject, f"{prefix}activity-sessions")
    assert Counter(
        (key, one["user"], one["start"], one["end"], one["actions"], one["page_views"])
        for key, one in sessions
    ) == Counter(
        (f"{user} {iso_of(start)}", user, iso_of(start), iso_of(end), actions, views)
        for user, start, end, actions, views in final_sessions(answers, events)
    )
    top = dict(records_of(spark, subject, f"{prefix}activity-top"))
    assert {key: [(one["subject"], one["count"]) for one in top[key]["top"]] for key in top} == {
        f"{iso_of(day_ms)[:10]} {kind}": ranking
        for kind, rankings in (("page", answers.top_pages), ("search", answers.top_searches))
        for day_ms, ranking in rankings.items()
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("subject", SUBJECTS if IS_FULL else SUBJECTS[:1], indirect=True)
def test_answers_are_the_truth_after_stops_and_new_records(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    events = list(limited(Generator(1, RATE, START_MS), count=EVENTS))
    first = events[: EVENTS * 2 // 3]
    subject.create("act-events", 4)
    settings = new_settings(
        JOB,
        {
            "bootstrap": subject.bootstrap,
            "folder": str(tmp_path / "job"),
            "lake": str(tmp_path / "lake"),
            "topics": "act-events",
            "output_prefix": "act-",
            "group_prefix": "act-",
            "max_offsets_per_trigger": EVENTS // 3,
        },
    )
    produce(subject, "act-events", first)
    assert run_once(spark, settings, batches_max=2) < 8, "it was stopped in the middle"

    run_once(spark, settings)

    check_tables(settings, first)
    check_topics(spark, subject, "act-", first)
    later_ms = after_all_so_far()
    produce(subject, "act-events", events[len(first) :])

    run_once(spark, settings)

    check_tables(settings, events)
    check_topics(spark, subject, "act-", events)
    # There is something to be seen.
    answers = truth(events)
    assert (len(answers.days), answers.broken > 0) == (2, True)
    assert len(final_sessions(answers, events)) > len(final_sessions(truth(first), first)) > 100

    begin_replay(settings.folder, Replay(later_ms))
    run_once(spark, settings)

    check_tables(settings, events[len(first) :])
