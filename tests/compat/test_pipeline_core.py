"""Columns in and out of Ottla and of Apache Kafka, beside confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest

from ottla.client.blocking_cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    BlockingCluster,
)
from ottla.client.blocking_groups import CommittedOffset, commit_offsets, committed_offsets
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.rows.appender import Appended, Appender
from ottla.pipeline.rows.columns import COLUMNS, HEADERS_TYPE
from ottla.pipeline.rows.fetcher import DataLoss, Fetcher
from ottla.pipeline.sink.transaction import LedgerEntry, Transaction
from ottla.records.compression import Compression
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.side_by_side import SUBJECTS, Subject

NOW_MS = 1_700_000_000_000
GROUP = "pipeline-core"

Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]
"""Key, value, timestamp in ms, headers."""

ROWS: list[Row] = [
    (b"key", b"value", NOW_MS, []),
    (None, b"no key", NOW_MS + 1, [("a", b"1"), ("a", None), ("", b"")]),
    (b"tombstone", None, NOW_MS - 5, []),
    (b"", b"", NOW_MS + 100_000, [("empty", b"")]),
    (None, None, NOW_MS, []),
    *((b"%d" % number, bytes(number), NOW_MS + number, []) for number in (63, 64, 8191, 8192)),
    (b"large", bytes(range(256)) * 2_000, NOW_MS, [("large", bytes(10_000))]),
    *((None, b"value %d" % number, NOW_MS + number, []) for number in range(2_000)),
]


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    name = "shared_broker" if request.param == "Ottla" else "apache_kafka"
    with Subject(request.param, request.getfixturevalue(name).bootstrap) as subject:
        yield subject


@pytest.fixture
def cluster(subject: Subject) -> Iterator[BlockingCluster]:
    host, _, port = subject.bootstrap.rpartition(":")
    with BlockingCluster([(host, int(port))], retry_timeout_s=30.0) as cluster:
        yield cluster


def fetcher(cluster: BlockingCluster, topic: str, partition: int = 0, **options: Any) -> Fetcher:
    """Of all that is there."""
    where = TopicPartition(topic, partition)
    isolation_level = options.get("isolation_level", READ_COMMITTED)
    start = cluster.list_offsets({where: EARLIEST})[where].offset
    end = cluster.list_offsets({where: LATEST}, isolation_level=isolation_level)[where].offset
    topic_id = cluster.topics([topic])[topic].topic_id
    return Fetcher(cluster, where, topic_id, options.pop("start", start), end, **options)


def read(cluster: BlockingCluster, topic: str, partition: int = 0, **options: Any) -> pa.Table:
    found = [*fetcher(cluster, topic, partition, **options)]
    for batch in found:
        batch.validate(full=True)
    return pa.Table.from_batches(found) if found else None


def rows_of(table: pa.Table) -> list[Row]:
    timestamps = table.column("timestamp").cast("int64").to_pylist()
    headers = [
        [(one["key"], one["value"]) for one in each or []]
        for each in table.column("headers").to_pylist()
    ]
    keys, values = table.column("key").to_pylist(), table.column("value").to_pylist()
    return [
        (key, value, micros // 1000, listed)
        for key, value, micros, listed in zip(keys, values, timestamps, headers, strict=True)
    ]


def columns_of(rows: list[Row]) -> dict[str, Any]:
    headers = [
        [{"key": key, "value": value} for key, value in listed] or None for *_, listed in rows
    ]
    return {
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "timestamps_ms": np.array([row[2] for row in rows], np.int64),
        "headers": pa.array(headers, HEADERS_TYPE),
    }


def values(table: pa.Table | None) -> list[bytes]:
    return [] if table is None else table.column("value").to_pylist()


def texts(*found: str) -> dict[str, Any]:
    return {"key": None, "value": pa.array([*found])}


@pytest.mark.parametrize("compression", [kind.name.lower() for kind in Compression])
def test_what_confluent_kafka_produced_is_read(
    subject: Subject, cluster: BlockingCluster, topic: str, compression: str
) -> None:
    subject.create(topic, 2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": subject.bootstrap, "compression.type": compression, "linger.ms": 20}
    )
    for key, value, timestamp, headers in ROWS:
        producer.produce(topic, value, key, 1, timestamp=timestamp, headers=[*headers])
    producer.flush(30)

    table = read(cluster, topic, 1)
    assert rows_of(table) == ROWS
    assert table.schema.names == list(COLUMNS)
    assert table.column("offset").to_pylist() == list(range(len(ROWS)))
    assert set(table.column("topic").to_pylist()) == {topic}
    assert set(table.column("partition").to_pylist()) == {1}
    assert set(table.column("timestampType").to_pylist()) == {0}
    assert read(cluster, topic, 0) is None
    small = read(cluster, topic, 1, max_bytes=1000, columns=["offset"], start=7)
    assert small.column("offset").to_pylist() == list(range(7, len(ROWS)))


@pytest.mark.parametrize("compression", Compression, ids=lambda kind: kind.name.lower())
def test_what_was_appended_is_read_by_confluent_kafka(
    subject: Subject, cluster: BlockingCluster, topic: str, compression: Compression
) -> None:
    subject.create(topic, 2)
    appender = Appender(cluster, compression=compression, batch_bytes=50_000)
    for partition in (0, 1, 0):
        appender.append(topic, partition, **columns_of(ROWS))
    count = len(ROWS)
    assert appender.flush() == {
        TopicPartition(topic, 0): Appended(0, 2 * count - 1, 2 * count),
        TopicPartition(topic, 1): Appended(0, count - 1, count),
    }

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": subject.bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 1, 0)])
    messages: list[Any] = []
    while len(messages) < count:
        messages += consumer.consume(count, 10)
    consumer.close()
    assert [
        (message.key(), message.value(), message.timestamp()[1], message.headers() or [])
        for message in messages
    ] == ROWS
    assert rows_of(read(cluster, topic, 0)) == ROWS * 2


@pytest.mark.parametrize("version", [1, 2])
def test_transactions_over_two_tasks_with_offsets_and_a_ledger(
    subject: Subject,
    cluster: BlockingCluster,
    topic: str,
    version: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if version == 1:
        monkeypatch.setattr(BlockingCluster, "finalized_feature", lambda *_: 1)
    subject.create(topic, 2)
    group, source = f"{GROUP}-{topic}", TopicPartition(topic, 1)
    for batch_id in range(4):
        is_commit = batch_id != 1
        driver = Transaction(cluster, f"driver-{topic}")
        producer = driver.init()
        assert driver.is_version_2 == (version == 2)
        for partition in range(2):
            task = Transaction.of(cluster, driver.transactional_id, producer)
            appender = Appender(cluster, transaction=task)
            appender.append(topic, partition, **texts(f"batch {batch_id}", "second"))
            appender.append(topic, partition, **texts("third"))
            (written,) = appender.flush().values()
            assert written.record_count == 3
        entry = LedgerEntry("query", batch_id)
        driver.commit_offsets(group, {source: CommittedOffset(10 * batch_id, entry.text())})
        if is_commit:
            driver.commit()
            found = committed_offsets(cluster, group, [source])[source]
            assert (found.offset, LedgerEntry.parse(found.metadata)) == (10 * batch_id, entry)
        else:
            driver.abort()
            found = committed_offsets(cluster, group, [source])[source]
            assert LedgerEntry.parse(found.metadata) == LedgerEntry("query", 0)
    driver.init()  # waits until the end is in every log
    committed = [
        text for number in (0, 2, 3) for text in (b"batch %d" % number, b"second", b"third")
    ]
    assert values(read(cluster, topic, 0)) == committed
    assert values(read(cluster, topic, 1)) == committed
    everything = read(cluster, topic, 0, isolation_level=READ_UNCOMMITTED)
    assert len(values(everything)) == 12


def test_who_was_fenced_cannot_write_or_commit(
    subject: Subject, cluster: BlockingCluster, topic: str
) -> None:
    subject.create(topic)
    zombie = Transaction(cluster, f"fenced-{topic}")
    zombie.init()
    appender = Appender(cluster, transaction=zombie)
    appender.append(topic, 0, **texts("zombie"))
    appender.flush()
    heir = Transaction(cluster, zombie.transactional_id)
    heir.init()
    with pytest.raises(KafkaError, match="fenced"):
        zombie.commit()
    appender.append(topic, 0, **texts("again"))
    with pytest.raises(KafkaError, match=f"{topic}-0 refuses"):
        appender.flush()
    own = Appender(cluster, transaction=heir)
    own.append(topic, 0, **texts("heir"))
    own.flush()
    heir.commit()
    heir.init()  # waits until the end is in every log
    assert values(read(cluster, topic)) == [b"heir"]


def test_log_append_time(subject: Subject, cluster: BlockingCluster, topic: str) -> None:
    subject.create(topic, message_timestamp_type="LogAppendTime")
    appender = Appender(cluster)
    appender.append(topic, 0, **columns_of(ROWS))
    appender.flush()
    table = read(cluster, topic)
    assert set(table.column("timestampType").to_pylist()) == {1}
    assert min(table.column("timestamp").cast("int64").to_pylist()) > (NOW_MS + 10**9) * 1000
    assert values(table) == [row[1] for row in ROWS]


def test_a_topic_with_small_batches_gets_small_batches(
    subject: Subject, cluster: BlockingCluster, topic: str
) -> None:
    subject.create(topic, max_message_bytes="2000")
    appender = Appender(cluster)
    appender.append(topic, 0, **texts(*(f"value {number}" for number in range(1_000))))
    assert appender.flush()[TopicPartition(topic, 0)] == Appended(0, 999, 1_000)
    appender.append(topic, 0, **texts("behind"))
    appender.flush()
    found = values(read(cluster, topic))
    assert found == [*(b"value %d" % number for number in range(1_000)), b"behind"]
    appender.append(topic, 0, **texts("x" * 3_000))
    with pytest.raises(KafkaError, match=r"one record of .* max\.message\.bytes") as raised:
        appender.flush()
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_refused_record_is_told_with_the_brokers_words(
    subject: Subject, cluster: BlockingCluster, topic: str
) -> None:
    subject.create(topic, cleanup_policy="compact")
    appender = Appender(cluster)
    appender.append(topic, 0, **texts("no key"))
    with pytest.raises(KafkaError, match=rf"{topic}-0 refuses a batch of 1 records.*record 0: "):
        appender.flush()


def test_records_that_were_deleted_are_a_loss(
    subject: Subject, cluster: BlockingCluster, topic: str
) -> None:
    subject.create(topic)
    appender = Appender(cluster)
    appender.append(topic, 0, **texts(*"abcde"))
    appender.flush()
    before = fetcher(cluster, topic)
    allowed = fetcher(cluster, topic, is_loss_allowed=True)
    partition = DeleteRecordsPartition(partition_index=0, offset=2)
    wanted = DeleteRecordsTopic(name=topic, partitions=[partition])
    subject.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000))
    with pytest.raises(DataLoss, match=f"offsets 0 to 1 of {topic}-0 are gone"):
        list(before)
    assert [batch.column("value").to_pylist() for batch in allowed] == [[b"c", b"d", b"e"]]


def test_a_topic_made_anew_is_another_topic(
    subject: Subject, cluster: BlockingCluster, topic: str
) -> None:
    subject.create(topic)
    appender = Appender(cluster)
    appender.append(topic, 0, **texts("old"))
    appender.flush()
    before = fetcher(cluster, topic)
    old_id = cluster.topics([topic])[topic].topic_id
    subject.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000))
    subject.create(topic)
    with pytest.raises(KafkaError, match="deleted and made anew") as raised:
        list(before)
    assert raised.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    new_id = cluster.topics([topic])[topic].topic_id
    assert set(cluster.topics_by_id([old_id, new_id])) == {new_id}


def test_offsets_of_a_group_without_members(
    subject: Subject, cluster: BlockingCluster, topic: str
) -> None:
    subject.create(topic, 2)
    group = f"{GROUP}-{topic}"
    assert committed_offsets(cluster, group) == {}
    offsets = {TopicPartition(topic, index): CommittedOffset(index, "note") for index in range(2)}
    commit_offsets(cluster, group, offsets)
    assert committed_offsets(cluster, group) == offsets
    one = TopicPartition(topic, 1)
    assert committed_offsets(cluster, group, [one]) == {one: offsets[one]}
    assert committed_offsets(cluster, group, [TopicPartition("other", 0)]) == {}
