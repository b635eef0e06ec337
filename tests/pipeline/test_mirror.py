"""A mirror between Ottla and Apache Kafka, in both directions."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_topics import (
    ConfigEntry,
    add_partitions,
    alter_configs,
    describe_configs,
)
from ottla.pipeline.jobs.mirror import JOB, mirrored
from ottla.pipeline.jobs.mirror_hops import HEADER
from ottla.pipeline.run.runner import JobFailed, JobRun
from ottla.pipeline.source.given_options import addresses
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.mirrors import (
    Found,
    Record,
    commit,
    committed,
    produce,
    records_of,
    run_once,
    settings_of,
)
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject
from tools.apache_kafka import ApacheKafkaBroker

PARTITIONS = 8
OLD_MS = 1_500_000_000_000


class Pair(NamedTuple):
    source: Subject
    target: Subject


@pytest.fixture(scope="module")
def ottla(shared_broker: OttlaProcess) -> Iterator[Subject]:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        yield subject


@pytest.fixture(scope="module")
def kafka(apache_kafka: ApacheKafkaBroker) -> Iterator[Subject]:
    with Subject("Apache Kafka", apache_kafka.bootstrap) as subject:
        yield subject


@pytest.fixture(params=["Ottla to Apache Kafka", "Apache Kafka to Ottla"])
def pair(request: pytest.FixtureRequest, ottla: Subject, kafka: Subject) -> Pair:
    return Pair(ottla, kafka) if request.param.startswith("Ottla") else Pair(kafka, ottla)


def cluster_of(subject: Subject) -> BlockingCluster:
    return BlockingCluster(addresses(subject.bootstrap))


def some_records(first: int, count: int) -> list[tuple[int, Record]]:
    """Some without a key, some tombstones, some with headers."""
    return [
        (
            number % PARTITIONS,
            Record(
                key=None if number % 3 == 0 else b"k%d" % (number % 50),
                value=None if number % 11 == 1 else b"%d" % number,
                timestamp=OLD_MS + number,
                headers=(("n", b"%d" % number), ("n", b""), ("none", None)) * (number % 5 == 0),
            ),
        )
        for number in range(first, first + count)
    ]


def fill(subject: Subject, topic: str, first: int, count: int) -> None:
    """A part plain and compressed, a part in a transaction, and a part that is aborted."""
    records = some_records(first, count)
    plain, rest = records[: count // 2], records[count // 2 :]
    produce(subject.bootstrap, topic, plain, compression="lz4")
    produce(subject.bootstrap, topic, rest[::-1], transactional_id=topic, is_aborted=True)
    produce(subject.bootstrap, topic, rest, transactional_id=topic, compression="zstd")


def assert_same(pair: Pair, topic: str) -> Found:
    expected = records_of(pair.source.bootstrap, topic)
    assert records_of(pair.target.bootstrap, topic) == expected
    return expected


def config_of(subject: Subject, topic: str) -> dict[str, ConfigEntry]:
    with cluster_of(subject) as cluster:
        return describe_configs(cluster, [topic])[topic]


def test_all_of_a_topic_is_mirrored_and_follows(
    spark: SparkSession, pair: Pair, tmp_path: Path
) -> None:
    source, target = pair
    topic = f"mirror-all-from-{source.name.replace(' ', '-')}"
    group, unmirrored = f"{topic}-readers", f"not-{topic}"
    # Kept for ever, as the records are years old.
    source.create(topic, PARTITIONS, retention_ms="-1", segment_ms="7654321")
    source.create(unmirrored, 1)
    pattern = f"mirror-.*-{topic[-5:]}"
    settings = settings_of(source.bootstrap, target.bootstrap, tmp_path, pattern)
    fill(source, topic, 0, 1600)
    commit(source.bootstrap, group, topic, {0: 0, 1: 37, 2: 190, 3: 302})
    run_once(spark, settings)

    expected = assert_same(pair, topic)
    assert [len(records) for records in expected.values()] == [200] * PARTITIONS
    configs = config_of(target, topic)
    assert configs["retention.ms"] == ConfigEntry("-1", True)
    assert configs["segment.ms"] == ConfigEntry("7654321", True)
    assert unmirrored not in topics_of(target)
    found = committed(target.bootstrap, group, topic, PARTITIONS)
    assert {one: note for one, (_, note) in found.items()} == {one: f"at {one}" for one in range(4)}
    assert_goes_on(pair, group, topic, {0: 0, 1: 37, 2: 190, 3: 302})

    # Records, a partition, settings and offsets that come later.
    with cluster_of(source) as cluster:
        add_partitions(cluster, {topic: PARTITIONS + 1})
        alter_configs(cluster, {topic: {"segment.ms": None, "flush.ms": "98765"}})
    fill(source, topic, 1600, 160)
    produce(source.bootstrap, topic, [(PARTITIONS, Record(b"k", b"new", OLD_MS, ()))])
    commit(source.bootstrap, group, topic, {0: 12, 3: 0})
    run_once(spark, settings)
    assert len(assert_same(pair, topic)) == PARTITIONS + 1
    configs = config_of(target, topic)
    assert configs["flush.ms"] == ConfigEntry("98765", True)
    assert not configs["segment.ms"].is_set
    # It was restarted, so it cannot know that it was not the group who read further at the target.
    assert_goes_on(pair, group, topic, {0: 12, 1: 37, 2: 190, 3: 302})

    # Without its checkpoint it goes on from what the target says.
    shutil.rmtree(tmp_path / "checkpoints")
    fill(source, topic, 1760, 16)
    run_once(spark, settings)
    assert_same(pair, topic)


def topics_of(subject: Subject) -> list[str]:
    with cluster_of(subject) as cluster:
        return [*cluster.topics(None)]


def assert_goes_on(pair: Pair, group: str, topic: str, offsets: dict[int, int]) -> None:
    """That a reader who was at these offsets at the source gets the rest at the target."""
    there = f"{group}-as-it-was"
    commit(pair.source.bootstrap, there, topic, offsets)
    expected = rest_of(pair.source, there, topic, offsets)
    assert rest_of(pair.target, group, topic, offsets) == expected


def rest_of(subject: Subject, group: str, topic: str, partitions: dict[int, int]) -> Found:
    return records_of(subject.bootstrap, topic, group=group, partitions=partitions)


def test_a_record_that_has_been_in_the_target_is_left_out(spark: SparkSession) -> None:
    """However it came from there, so that mirrors may go round in a ring."""
    hops = {
        "own": None,
        "from the south": [("trace", b"1"), (HEADER, b"south:7")],
        "by the south from the west": [(HEADER, b"west:7"), (HEADER, b"south:8")],
        "looks so": [("other", b"west:7"), (HEADER, b"west-end:7"), (HEADER, None)],
    }
    now = datetime(2026, 1, 31)
    rows = spark.createDataFrame(
        [("clicks", 3, 40 + n, None, one.encode(), hops[one], now) for n, one in enumerate(hops)],
        "topic string, partition int, offset long, key binary, value binary, "
        "headers array<struct<key:string,value:binary>>, timestamp timestamp",
    )
    found = {
        bytes(row.value).decode(): [tuple(header) for header in row.headers]
        for row in mirrored(rows, "east", "west").collect()
    }
    assert found == {
        "own": [(HEADER, b"east:40")],
        "from the south": [("trace", b"1"), (HEADER, b"south:7"), (HEADER, b"east:41")],
        "looks so": [*(hops["looks so"] or []), (HEADER, b"east:43")],
    }


def test_mirrors_that_face_each_other_copy_nothing_back(
    spark: SparkSession, ottla: Subject, kafka: Subject, tmp_path: Path
) -> None:
    """The same topic in both, written to in both, and a group that moves from one to the other."""
    topic, group = "mirror-both", "mirror-both-readers"
    there = settings_of(ottla.bootstrap, kafka.bootstrap, tmp_path / "a", topic, name="there")
    back = settings_of(kafka.bootstrap, ottla.bootstrap, tmp_path / "b", topic, name="back")
    records: dict[str, list[bytes]] = {}
    for subject in (ottla, kafka):
        subject.create(topic, 1)
        records[subject.name] = [b"%s %d" % (subject.name.encode(), n) for n in range(20)]
        produce(subject.bootstrap, topic, [(0, a_record(v)) for v in records[subject.name][:10]])
    run_once(spark, there)
    run_once(spark, back)
    # A reader of Ottla has seen 5 of Ottla's own: nothing that it has not read is left out.
    commit(ottla.bootstrap, group, topic, {0: 5})
    run_once(spark, there)
    # Both have their own first, then the other's, and the marks of the transactions.
    for subject, other in ((ottla, kafka), (kafka, ottla)):
        found = values_of(subject, topic)
        assert found == records[subject.name][:10] + records[other.name][:10]
    assert values_of(kafka, topic, group) == records[kafka.name][:10] + records[ottla.name][:10]

    # It goes on there, reads all, and comes back: the other mirror tells where.
    for subject in (ottla, kafka):
        produce(subject.bootstrap, topic, [(0, a_record(v)) for v in records[subject.name][10:]])
    run_once(spark, there)
    commit(kafka.bootstrap, group, topic, {0: end_of(kafka, topic)})
    run_once(spark, back)
    assert values_of(ottla, topic, group) == []
    for subject in (ottla, kafka):
        assert Counter(values_of(subject, topic)) == Counter(itertools.chain(*records.values()))


def a_record(value: bytes) -> Record:
    return Record(None, value, time.time_ns() // 1_000_000, ())


def values_of(subject: Subject, topic: str, group: str | None = None) -> list[bytes | None]:
    found = records_of(subject.bootstrap, topic, group=group)
    return [record.value for record in found[0]]


def end_of(subject: Subject, topic: str) -> int:
    return int(subject.fetch(topic).responses[0].partitions[0].high_watermark)


def test_of_two_copies_of_a_mirror_one_ends(
    spark: SparkSession, ottla: Subject, kafka: Subject, tmp_path: Path
) -> None:
    topic = "mirror-twice"
    ottla.create(topic, 2)
    pair = Pair(ottla, kafka)
    runs = []
    # Of two Spark sessions: in one, a query of a name runs once.
    for number, session in enumerate((spark, spark.newSession())):
        settings = settings_of(
            ottla.bootstrap, kafka.bootstrap, tmp_path / str(number), topic, name="twice"
        )
        runs.append(JobRun(JOB, settings, session, is_once=False))
    both, failed = [*runs], list[JobFailed]()
    produce(ottla.bootstrap, topic, some_values(0))
    try:
        runs[0].start()
        copy_all(runs[:1], kafka, topic, 10, failed)
        # Now both see what is new. Whoever comes second must not write it again.
        runs[1].start()
        for number in (10, 20):
            produce(ottla.bootstrap, topic, some_values(number))
            copy_all(runs, kafka, topic, number + 10, failed)
        while len(failed) == 0:
            poll_all(runs, failed)
    finally:
        for run in both:
            run.close()
    assert_same(pair, topic)
    (error,) = failed
    assert re.search("another copy has gone on|with the same transactional id", str(error))


def copy_all(
    runs: list[JobRun], target: Subject, topic: str, count: int, failed: list[JobFailed]
) -> None:
    while topic not in topics_of(target) or len(values_of(target, topic)) < count:
        poll_all(runs, failed)


def poll_all(runs: list[JobRun], failed: list[JobFailed]) -> None:
    for run in [*runs]:
        try:
            assert run.poll()
        except JobFailed as error:
            failed.append(error)
            runs.remove(run)
    time.sleep(0.05)


def some_values(number: int) -> list[tuple[int, Record]]:
    return [(0, a_record(b"%d" % value)) for value in range(number, number + 10)]


def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    spark: SparkSession, ottla: Subject, kafka: Subject, tmp_path: Path
) -> None:
    topic = "mirror-anew"
    settings = settings_of(ottla.bootstrap, kafka.bootstrap, tmp_path, topic, name="anew")
    fill_anew(ottla, topic, 0)
    run_once(spark, settings)
    delete(ottla, topic)
    fill_anew(ottla, topic, 10)
    # The checkpoint would have told; the target does, too.
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(JobFailed, match="topic mirror-anew was deleted in the source"):
        run_once(spark, settings)
    delete(kafka, topic)
    run_once(spark, settings)
    assert values_of(kafka, topic) == [b"%d" % value for value in range(10, 20)]


def fill_anew(subject: Subject, topic: str, number: int) -> None:
    subject.create(topic, 1)
    produce(subject.bootstrap, topic, some_values(number))


def delete(subject: Subject, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000)
    assert subject.ask(request).responses[0].error_code == 0
    while topic in topics_of(subject):
        time.sleep(0.05)
