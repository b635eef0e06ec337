"""A job on real Spark: once, again, failing, replayed, and what shows its lag."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ottla.cli.main import main
from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.run.progress import BatchProgress, ProgressFolder
from ottla.pipeline.run.replay import Replay, begin_replay
from ottla.pipeline.run.runner import JobFailed, JobRun
from ottla.pipeline.run.settings import new_settings
from ottla.pipeline.run.stages import STAGES, Stage
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject
from tests.support.tiny_job import JOB
from tools.apache_kafka import run_tool

WORDS = ["a", "be", "see", "a", "deep", "a"]
NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture
def subject(shared_broker: OttlaProcess) -> Iterator[Subject]:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        yield subject


def settings_of(subject: Subject, folder: Path, topic: str, **flags: Any) -> Settings:
    given = {
        "bootstrap": subject.bootstrap,
        "folder": str(folder / "job"),
        "lake": str(folder / "lake"),
        "topics": topic,
        "output_prefix": f"{topic}-",
        "group_prefix": f"{topic}-",
        **flags,
    }
    return new_settings(JOB, given)


def say(subject: Subject, topic: str, words: list[str], timestamp: int = NOW_MS) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": subject.bootstrap})
    for number, word in enumerate(words):
        producer.produce(topic, word, partition=number % 2, timestamp=timestamp)
    assert producer.flush(30) == 0


def run_once(
    spark: SparkSession, settings: Settings, stages: list[Stage] | None = None
) -> list[BatchProgress]:
    """Until all that is there is read. Raises what the run raises."""
    batches: list[BatchProgress] = []
    on_stage = ([] if stages is None else stages).append
    run = JobRun(JOB, settings, spark, is_once=True, on_batch=batches.append, on_stage=on_stage)
    try:
        run.start()
        while run.poll():
            time.sleep(0.05)
    finally:
        run.close()
    return batches


def rows_of(settings: Settings, table: str) -> Counter[Any]:
    rows = DeltaTable(f"{settings.lake}/{table}").to_pyarrow_table().to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def values_of(spark: SparkSession, subject: Subject, topic: str) -> Counter[Any]:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", subject.bootstrap)
    rows = reader.option("subscribe", topic).load().collect()
    return Counter((row.key and bytes(row.key).decode(), bytes(row.value).decode()) for row in rows)


def lag_of(capsys: pytest.CaptureFixture[str], subject: Subject, group: str) -> int:
    """As `ottla groups describe` has it."""
    capsys.readouterr()
    assert main(["groups", "describe", group, "--json", "--bootstrap", subject.bootstrap]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return int(found["lag"])


def test_it_goes_on_where_it_ended(
    spark: SparkSession, subject: Subject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject.create("tiny-on", 2)
    settings = settings_of(subject, tmp_path, "tiny-on", max_offsets_per_trigger=4)
    say(subject, "tiny-on", WORDS)
    stages: list[Stage] = []
    batches = run_once(spark, settings, stages)
    assert stages == list(STAGES[2:])
    assert sorted((one.query, one.batch_id, one.lag) for one in batches) == [
        ("counts", 0, 2),
        ("counts", 1, 0),
        ("loud", 0, 2),
        ("loud", 1, 0),
    ]
    said = Counter(WORDS)
    assert rows_of(settings, "counts") == Counter(said.items())
    assert rows_of(settings, "words") == Counter(
        {(word, word.upper()): said[word] for word in said}
    )
    assert lag_of(capsys, subject, "tiny-on-tiny.loud") == 0
    say(subject, "tiny-on", ["a", "new"])
    assert lag_of(capsys, subject, "tiny-on-tiny.loud") == 2
    assert lag_of(capsys, subject, "tiny-on-tiny.counts") == 2
    # Kafka's own tool sees the same.
    described = run_tool(
        *("consumer-groups", "--bootstrap-server", subject.bootstrap),
        *("--describe", "--group", "tiny-on-tiny.counts"),
    ).stdout
    lines = [line.split() for line in described.splitlines() if "tiny-on " in line]
    assert sorted(line[2:6] for line in lines) == [["0", "3", "4", "1"], ["1", "3", "4", "1"]]

    assert {one.batch_id for one in run_once(spark, settings)} == {2}
    stages.clear()
    assert run_once(spark, settings, stages) == []
    assert stages == ["first query", "all queries"]
    said += Counter(["a", "new"])
    assert rows_of(settings, "counts") == Counter(said.items())
    expected = Counter({(word, word.upper()): said[word] for word in said})
    assert rows_of(settings, "words") == expected
    assert values_of(spark, subject, "tiny-on-loud") == expected
    # More than one topic, one transaction; without a value it is all columns.
    short = {
        (None, f'{{"word":"{word}","loud":"{word.upper()}"}}'): said[word] for word in ("a", "be")
    }
    assert values_of(spark, subject, "tiny-on-short") == Counter(short)
    assert lag_of(capsys, subject, "tiny-on-tiny.counts") == 0
    assert lag_of(capsys, subject, "tiny-on-tiny.loud") == 0
    progress = ProgressFolder(settings.folder).read("loud")
    assert progress is not None
    assert progress.last is not None
    assert (progress.state, progress.last.batch_id, progress.last.lag) == ("ended", 2, 0)


def test_a_batch_that_is_in_all_outputs_when_a_driver_dies(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    """It is run again, and writes nothing; what Spark keeps of it goes on all the same."""
    subject.create("tiny-died", 2)
    settings = settings_of(subject, tmp_path, "tiny-died")
    say(subject, "tiny-died", WORDS)
    run_once(spark, settings)
    for query in ("loud", "counts"):
        (settings.folder / "checkpoints" / query / "commits" / "0").unlink()

    assert {one.batch_id for one in run_once(spark, settings)} == {0}
    say(subject, "tiny-died", ["a", "new"])
    assert {one.batch_id for one in run_once(spark, settings)} == {1}
    said = Counter([*WORDS, "a", "new"])
    assert rows_of(settings, "counts") == Counter(said.items())
    expected = Counter({(word, word.upper()): said[word] for word in said})
    assert rows_of(settings, "words") == expected
    assert values_of(spark, subject, "tiny-died-loud") == expected


def test_a_query_that_fails_stops_the_others(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    subject.create("tiny-fail", 2)
    settings = settings_of(subject, tmp_path, "tiny-fail", fail_at="0")
    say(subject, "tiny-fail", WORDS)
    with pytest.raises(JobFailed) as failed:
        run_once(spark, settings)
    assert str(failed.value) == "query counts failed: ValueError: told to fail"
    assert spark.streams.active == []
    progress = ProgressFolder(settings.folder).read("counts")
    assert progress is not None
    assert (progress.state, progress.error) == ("failed", "ValueError: told to fail")
    # What was wrong is mended: nothing is lost, and nothing there twice.
    run_once(spark, settings_of(subject, tmp_path, "tiny-fail"))
    assert rows_of(settings, "counts") == Counter(Counter(WORDS).items())
    assert rows_of(settings, "words").total() == len(WORDS)


def test_a_topic_that_is_not_there(spark: SparkSession, subject: Subject, tmp_path: Path) -> None:
    settings = settings_of(subject, tmp_path, "tiny-gone")
    with pytest.raises(
        JobFailed, match=r"^query \w+ failed: OptionError: option subscribe: there is no"
    ):
        run_once(spark, settings)


def test_a_replay_rebuilds_what_came_since(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    subject.create("tiny-replay", 2)
    settings = settings_of(subject, tmp_path, "tiny-replay")
    say(subject, "tiny-replay", ["old", "old"], timestamp=NOW_MS - 60_000)
    say(subject, "tiny-replay", WORDS)
    run_once(spark, settings)
    assert rows_of(settings, "counts")["old", 2] == 1
    begin_replay(settings.folder, Replay(NOW_MS - 1000))
    assert rows_of(settings, "counts")["old", 2] == 1, "readers have the old until there is new"
    # Also when it is interrupted: what was begun as a replay goes on as one.
    with pytest.raises(JobFailed):
        run_once(spark, settings_of(subject, tmp_path, "tiny-replay", fail_at="0"))
    run_once(spark, settings)
    said = Counter(WORDS)
    assert rows_of(settings, "counts") == Counter(said.items())
    assert rows_of(settings, "words").total() == len(WORDS)
    loud = values_of(spark, subject, "tiny-replay-loud")
    assert (loud["old", "OLD"], loud["a", "A"]) == (2, 2 * said["a"])
