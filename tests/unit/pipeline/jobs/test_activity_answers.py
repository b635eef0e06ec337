"""Answers of the activity pipeline, computed by hand; and what comes when, by event times that the
test gives: of micro-batches each is one file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.jobs.activity_answers import sessions, subjects, traffic

MIDNIGHT = datetime(2026, 1, 1)
DELAY = "3 minutes"

Action = tuple[datetime, str, str, str]
Answer = Callable[[DataFrame, str], DataFrame]


def at(text: str, day: int = 1) -> datetime:
    """
    >>> at("12:30")
    datetime.datetime(2026, 1, 1, 12, 30)
    """
    hours, minutes, *seconds = map(float, text.split(":"))
    return datetime(2026, 1, day) + timedelta(
        hours=hours, minutes=minutes, seconds=sum(seconds, 0.0)
    )


def view(time: datetime, user: str, page: str = "/") -> Action:
    return time, "page_view", user, page


def search(time: datetime, user: str, query: str = "shoes") -> Action:
    return time, "search", user, query


def click(time: datetime, user: str, page: str = "/") -> Action:
    return time, "click", user, page


SCHEMA = "time timestamp, type string, user string, subject string"


def answered(spark: SparkSession, answer: Answer, *actions: Action) -> list[tuple[Any, ...]]:
    frame = spark.createDataFrame(list(actions), SCHEMA)
    return sorted(map(tuple, answer(frame, DELAY).collect()))


def test_views_and_visitors_of_minutes_and_days(spark: SparkSession) -> None:
    found = answered(
        spark,
        traffic,
        view(at("00:00"), "ada"),
        view(at("00:00:59.999"), "ada"),
        view(at("00:00:30"), "bela"),
        search(at("00:00:30"), "chen"),
        click(at("00:00:30"), "dara"),
        view(at("00:01"), "ada"),
        view(at("23:59:59.999"), "bela"),
        view(at("00:00", day=2), "ada"),
        search(at("12:00", day=3), "ada"),
    )

    assert found == [
        ("day", at("00:00"), 5, 2),
        ("day", at("00:00", day=2), 1, 1),
        ("minute", at("00:00"), 3, 2),
        ("minute", at("00:01"), 1, 1),
        ("minute", at("23:59"), 1, 1),
        ("minute", at("00:00", day=2), 1, 1),
    ]


def test_a_session_ends_before_a_gap_of_more_than_30_minutes(spark: SparkSession) -> None:
    found = answered(
        spark,
        sessions,
        click(at("23:50"), "ada"),
        view(at("00:20", day=2), "ada"),
        search(at("00:50:00.001", day=2), "ada"),
        view(at("23:55"), "bela"),
    )

    assert found == [
        ("ada", at("23:50"), at("00:20", day=2), 2, 1),
        ("ada", at("00:50:00.001", day=2), at("00:50:00.001", day=2), 1, 0),
        ("bela", at("23:55"), at("23:55"), 1, 1),
    ]


def test_how_often_pages_and_searches_came(spark: SparkSession) -> None:
    found = answered(
        spark,
        subjects,
        view(at("00:00"), "ada", "/a"),
        view(at("12:00"), "ada", "/a"),
        view(at("12:00"), "ada", "/b"),
        click(at("12:00"), "ada", "/b"),
        search(at("12:00"), "ada", "/b"),
        view(at("12:00", day=2), "ada", "/a"),
    )

    assert found == [
        (date(2026, 1, 1), "page", "/a", 2),
        (date(2026, 1, 1), "page", "/b", 1),
        (date(2026, 1, 1), "search", "/b", 1),
        (date(2026, 1, 2), "page", "/a", 1),
    ]


@dataclass
class Streamed:
    batches: list[list[tuple[Any, ...]]]
    """What came out, by micro-batch; empty ones are left out."""
    dropped: int
    """Late groups that were left out: Spark counts them after it has grouped them."""
    in_state: int


def streamed(
    spark: SparkSession, answer: Answer, mode: str, folder: Path, *batches: list[Action]
) -> Streamed:
    source = folder / "in"
    source.mkdir()
    for number, actions in enumerate(batches):
        path = source / f"{number}.json"
        names = ("time", "type", "user", "subject")
        lines = [json.dumps(dict(zip(names, one, strict=True)), default=str) for one in actions]
        path.write_text("\n".join(lines))
        os.utime(path, (number, number))  # Spark takes the oldest first.
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").json(str(source))
    found: list[list[tuple[Any, ...]]] = []
    query = (
        answer(rows, DELAY)
        .writeStream.outputMode(mode)
        .foreachBatch(lambda frame, _: found.append(sorted(map(tuple, frame.collect()))))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    states = [progress.stateOperators[0] for progress in query.recentProgress]
    dropped = sum(state.numRowsDroppedByWatermark for state in states)
    return Streamed([one for one in found if one], dropped, states[-1].numRowsTotal)


def test_late_views_count_until_the_watermark_has_passed_their_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = streamed(
        spark,
        traffic,
        "update",
        tmp_path,
        [view(at("12:00:10"), "ada")],
        # Late, but the watermark is 11:57:10.
        [view(at("12:04:00"), "ada"), view(at("12:00:50"), "bela")],
        # The watermark is 12:01:00 now, and late is what is behind that of the batch before.
        [view(at("12:00:59"), "chen")],
        # Too late for the minute 12:00, not for 12:01, nor for the day.
        [view(at("12:00:59"), "dara"), view(at("12:01:00"), "chen")],
        [view(at("00:05", day=2), "ada")],
        [],
        # The watermark was 00:02 of the next day: too late for the day.
        [view(at("12:01:30"), "emil")],
    )

    noon, day = at("12:00"), at("00:00")
    assert found.batches == [
        [("day", day, 1, 1), ("minute", noon, 1, 1)],
        [("day", day, 3, 2), ("minute", noon, 2, 2), ("minute", at("12:04"), 1, 1)],
        [("day", day, 4, 3), ("minute", noon, 3, 3)],
        [("day", day, 6, 4), ("minute", at("12:01"), 1, 1)],
        [("day", at("00:00", day=2), 1, 1), ("minute", at("00:05", day=2), 1, 1)],
    ]
    assert found.dropped == 3
    # What the watermark has passed is gone: what is left is the next day and its one minute.
    assert found.in_state == 2


def test_a_session_comes_once_when_nothing_can_belong_to_it_any_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = streamed(
        spark,
        sessions,
        "append",
        tmp_path,
        [view(at("12:00"), "ada"), view(at("12:00"), "bela")],
        # 12:30 comes just in time for the session of 12:00. The watermark is 12:37 then.
        [view(at("12:40"), "ada"), view(at("12:30"), "ada")],
        [view(at("12:45"), "bela")],
        # Too late: it would end at 12:36.
        [view(at("12:06"), "chen")],
        # The watermark is 13:15 then, which is the end of the second one of bela, too.
        [view(at("13:18"), "dara")],
    )

    assert found.batches == [
        [("bela", at("12:00"), at("12:00"), 1, 1)],
        [("ada", at("12:00"), at("12:40"), 3, 3), ("bela", at("12:45"), at("12:45"), 1, 1)],
    ]
    assert found.dropped == 1
    assert found.in_state == 1


def test_counts_of_a_day_come_again_when_they_have_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = streamed(
        spark,
        subjects,
        "update",
        tmp_path,
        [view(at("12:00"), "ada", "/a"), view(at("12:00"), "ada", "/b")],
        [view(at("23:59"), "ada", "/a")],
        [view(at("00:04", day=2), "ada", "/a")],
        [],
        [view(at("23:59"), "ada", "/b")],
    )

    first, second = date(2026, 1, 1), date(2026, 1, 2)
    assert found.batches == [
        [(first, "page", "/a", 1), (first, "page", "/b", 1)],
        [(first, "page", "/a", 2)],
        [(second, "page", "/a", 1)],
    ]
    assert (found.dropped, found.in_state) == (1, 1)
