"""What becomes of a query when topics and brokers do what they should not, or what few expect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_groups import committed_offsets
from ottla.kernel.ids import TopicPartition
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.ottla_process import OttlaProcess
from tests.support.read_back import read_back
from tests.support.side_by_side import Subject
from tools.apache_kafka import ApacheKafkaBroker

WAIT_S = 90
PATIENCE_OPTION = "kafka.default.api.timeout.ms"


class Stream:
    """One query over all its runs: a topic into Parquet files, of which Spark's own log says which
    count. A row that comes twice is there twice."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._topic = topic
        self._folder = folder

    def start(self, **options: str) -> StreamingQuery:
        return self._writer(options).start()

    def run(self, **options: str) -> None:
        """Up to what is there now. Raises what ended it."""
        query = self._writer(options).trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S)

    def fail(self, **options: str) -> None:
        """A run whose first batch is planned, and not written."""

        def refuse(frame: DataFrame, batch_id: int) -> None:
            raise ValueError(f"batch {batch_id} is not written")

        query = self._frame(options).writeStream.foreachBatch(refuse)
        query = query.option("checkpointLocation", str(self._folder / "checkpoint"))
        with pytest.raises(StreamingQueryException, match="batch 0 is not written"):
            query.start().awaitTermination(WAIT_S)

    def _frame(self, options: dict[str, str]) -> DataFrame:
        return (
            self._spark.readStream.format("ottla")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
            .selectExpr("partition", "offset", "string(value) AS value")
        )

    def _writer(self, options: dict[str, str]) -> DataStreamWriter:
        return (
            self._frame(options)
            .writeStream.format("parquet")
            .option("path", str(self._folder / "rows"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
        )

    def rows(self) -> list[Row]:
        frame = self._spark.read.parquet(str(self._folder / "rows"))
        return frame.orderBy("partition", "offset").collect()

    def values(self) -> list[str]:
        return [row.value for row in self.rows()]


@pytest.fixture
def new_stream(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str, str], Stream]]:
    def make(bootstrap: str, topic: str) -> Stream:
        return Stream(spark, bootstrap, topic, tmp_path)

    yield make
    for query in spark.streams.active:
        query.stop()


def wait_until(condition: Callable[[], bool], what: str, query: StreamingQuery) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert query.isActive, f"while waiting for {what}: {query.exception()}"
        assert time.monotonic() < deadline_s, f"no {what} in {WAIT_S} s"
        time.sleep(0.1)


def wait_until_read(query: StreamingQuery, count: int) -> None:
    def is_read() -> bool:
        return sum(progress.numInputRows for progress in query.recentProgress) >= count

    wait_until(is_read, f"{count} rows", query)


def produce(
    bootstrap: str, topic: str, values: range, *, partition: int = 0, **settings: str
) -> None:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **names})
    for value in values:
        producer.produce(topic, b"%d" % value, partition=partition)
    assert producer.flush(30) == 0


def texts(*ranges: range) -> list[str]:
    return [str(value) for values in ranges for value in values]


def read_values(spark: SparkSession, subject: Subject, topic: str, **options: str) -> list[str]:
    frame = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )
    return [row.value.decode() for row in frame.orderBy("offset").collect()]


# -- what is in a log --------------------------------------------------------------------------


def test_all_compressions_in_one_partition(spark: SparkSession, subject: Subject) -> None:
    subject.create("faults-compressed")
    kinds = ["none", "gzip", "snappy", "lz4", "zstd"]
    for number, kind in enumerate(kinds):
        values = range(100 * number, 100 * (number + 1))
        produce(subject.bootstrap, "faults-compressed", values, compression_type=kind)
    assert read_values(spark, subject, "faults-compressed") == texts(range(500))


def test_transactions_are_read_when_they_are_committed(
    spark: SparkSession, subject: Subject
) -> None:
    """Aborted ones and the records that end them leave gaps; of what comes after the beginning of
    one that is open nothing is read yet."""
    topic = "faults-transactions"
    subject.create(topic)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": subject.bootstrap,
            "transactional.id": topic,
            # One stays open while Spark reads, however long that takes.
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(30)
    for number, end in enumerate(
        [producer.commit_transaction, producer.abort_transaction, producer.commit_transaction]
    ):
        producer.begin_transaction()
        for value in range(10 * number, 10 * (number + 1)):
            producer.produce(topic, b"%d" % value, partition=0)
        assert producer.flush(30) == 0
        end(30)
    producer.begin_transaction()
    producer.produce(topic, b"30", partition=0)
    assert producer.flush(30) == 0
    produce(subject.bootstrap, topic, range(31, 33))
    assert read_values(spark, subject, topic) == texts(range(10), range(20, 30))
    everything = {"kafka.isolation.level": "read_uncommitted"}
    assert read_values(spark, subject, topic, **everything) == texts(range(33))
    producer.commit_transaction(30)
    expected = texts(range(10), range(20, 33))
    assert read_values(spark, subject, topic) == expected
    # A range may begin and end in a gap.
    pieces = {"minPartitions": "7"}
    assert read_values(spark, subject, topic, **pieces) == expected


def test_a_compacted_log_has_gaps(
    spark: SparkSession, apache_kafka: ApacheKafkaBroker, new_stream: Callable[[str, str], Stream]
) -> None:
    """Apache Kafka alone: Ottla keeps what a compacted topic may lose."""
    topic, keys = "faults-compacted", 10
    with Subject("Apache Kafka", apache_kafka.bootstrap) as subject, quick_cleaner(subject):
        subject.create(
            topic, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01"
        )
        producer = confluent_kafka.Producer({"bootstrap.servers": subject.bootstrap})
        for value in range(100):
            producer.produce(topic, b"%d" % value, key=b"%d" % (value % keys), partition=0)
            if value % 20 == 19:
                assert producer.flush(30) == 0
                time.sleep(0.15)  # The next record is in another segment, and this one is cleaned.
        producer.produce(topic, b"100", key=b"last", partition=0)
        assert producer.flush(30) == 0
        deadline_s = time.monotonic() + WAIT_S
        while len(read_back(subject.bootstrap, topic)) > keys + 1:
            assert time.monotonic() < deadline_s, "it was not compacted"
            time.sleep(0.2)
        expected = texts(range(90, 101))
        assert read_values(spark, subject, topic) == expected
        assert read_values(spark, subject, topic, minPartitions="7") == expected
        stream = new_stream(subject.bootstrap, topic)
        stream.run(maxOffsetsPerTrigger="30")
        assert stream.values() == expected


@contextmanager
def quick_cleaner(subject: Subject) -> Iterator[None]:
    """Else it sleeps for 15 s."""
    alter_broker(subject, "log.cleaner.backoff.ms", "100")
    try:
        yield
    finally:
        alter_broker(subject, "log.cleaner.backoff.ms", None)


def alter_broker(subject: Subject, name: str, value: str | None) -> None:
    change = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    answer = subject.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert [one.error_code for one in answer.responses] == [0]


def test_records_deleted_before_they_were_read_are_a_loss(
    subject: Subject, new_stream: Callable[[str, str], Stream]
) -> None:
    topic = "faults-deleted-records"
    subject.create(topic)
    produce(subject.bootstrap, topic, range(5))
    stream = new_stream(subject.bootstrap, topic)
    stream.run()
    produce(subject.bootstrap, topic, range(5, 20))
    partition = DeleteRecordsPartition(partition_index=0, offset=12)
    wanted = DeleteRecordsTopic(name=topic, partitions=[partition])
    answer = subject.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000))
    assert answer.topics[0].partitions[0].error_code == 0
    with pytest.raises(
        StreamingQueryException, match=r"offsets 5 to 11 of .* are gone.*failOnDataLoss to false"
    ):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.values() == texts(range(5), range(12, 20))


# -- what becomes of topics --------------------------------------------------------------------


def test_a_topic_deleted_and_made_anew_under_a_query(
    subject: Subject, new_stream: Callable[[str, str], Stream]
) -> None:
    topic = "faults-made-anew"
    subject.create(topic)
    produce(subject.bootstrap, topic, range(10))
    stream = new_stream(subject.bootstrap, topic)
    query = stream.start()
    wait_until_read(query, 10)
    delete_topic(subject, topic)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss to false"):
        query.awaitTermination(WAIT_S)
    subject.create(topic)
    produce(subject.bootstrap, topic, range(10, 25))
    with pytest.raises(
        StreamingQueryException, match=f"topic {topic} was deleted and made anew.*failOnDataLoss"
    ):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert sorted(stream.values(), key=int) == texts(range(25))


def delete_topic(subject: Subject, topic: str) -> None:
    state = DeleteTopicState(name=None, topic_id=subject.topic_ids[topic])
    answer = subject.ask(DeleteTopicsRequest(topics=[state], timeout_ms=30_000))
    assert [one.error_code for one in answer.responses] == [0]


def test_partitions_added_while_a_query_runs_and_a_group_that_shows_its_lag(
    subject: Subject, new_stream: Callable[[str, str], Stream]
) -> None:
    topic, group = "faults-partitions", "faults-readers"
    subject.create(topic)
    produce(subject.bootstrap, topic, range(10))
    stream = new_stream(subject.bootstrap, topic)
    query = stream.start(**{"kafka.group.id": group})
    wait_until_read(query, 10)
    wanted = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    answer = subject.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000))
    assert [one.error_code for one in answer.results] == [0]
    subject.wait_until_led(topic)
    produce(subject.bootstrap, topic, range(10, 15), partition=2)
    wait_until_read(query, 15)
    ends = {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 0, TopicPartition(topic, 2): 5}
    host, _, port = subject.bootstrap.rpartition(":")
    with BlockingCluster([(host, int(port))]) as cluster:

        def is_told() -> bool:
            committed = committed_offsets(cluster, group, list(ends))
            return {where: one.offset for where, one in committed.items()} == ends

        wait_until(is_told, "commit of the group", query)
    query.stop()
    assert stream.values() == texts(range(15))


def test_topics_made_while_a_query_runs_are_read_if_they_match(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    subject.create("faults-pattern-a")
    produce(subject.bootstrap, "faults-pattern-a", range(5))
    frame = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("subscribePattern", "faults-pattern-.")
        .option("startingOffsets", "earliest")
        .load()
    )
    query = frame.selectExpr("string(value) AS value").writeStream.format("memory")
    started = query.queryName("faults_pattern").outputMode("append").start()
    try:
        wait_until_read(started, 5)
        subject.create("faults-pattern-b", 2)
        produce(subject.bootstrap, "faults-pattern-b", range(5, 10), partition=1)
        wait_until_read(started, 10)
    finally:
        started.stop()
    found = spark.table("faults_pattern").collect()
    assert sorted(int(row.value) for row in found) == list(range(10))


# -- what becomes of brokers -------------------------------------------------------------------


def test_a_broker_that_comes_back_is_waited_for(
    broker: OttlaProcess, new_stream: Callable[[str, str], Stream]
) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("faults-back", 2)
    produce(broker.bootstrap, "faults-back", range(10))
    stream = new_stream(broker.bootstrap, "faults-back")
    query = stream.start()
    wait_until_read(query, 10)
    for first in (10, 20):
        broker.kill()
        time.sleep(1)  # the query finds it gone, whatever it was doing
        broker.start()
        produce(broker.bootstrap, "faults-back", range(first, first + 10), partition=1)
        wait_until_read(query, first + 10)
    query.stop()
    assert stream.values() == texts(range(30))


def test_a_broker_that_stays_away_ends_the_query_which_then_goes_on_from_its_checkpoint(
    broker: OttlaProcess, new_stream: Callable[[str, str], Stream]
) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("faults-gone", 2)
    produce(broker.bootstrap, "faults-gone", range(10))
    stream = new_stream(broker.bootstrap, "faults-gone")
    query = stream.start(**{PATIENCE_OPTION: "1000"})
    wait_until_read(query, 10)
    broker.kill()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(WAIT_S)
    for words in (PATIENCE_OPTION, broker.bootstrap, "cannot connect"):
        assert words in str(caught.value)
    broker.start()
    produce(broker.bootstrap, "faults-gone", range(10, 20), partition=1)
    stream.run()
    assert stream.values() == texts(range(20))


def test_a_first_batch_that_failed_is_read_when_the_query_starts_again(
    shared_broker: OttlaProcess, new_stream: Callable[[str, str], Stream]
) -> None:
    """Spark asks anew where to begin, and the latest offsets are others by then."""
    topic = "faults-first"
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic, 1)
    produce(shared_broker.bootstrap, topic, range(10))
    stream = new_stream(shared_broker.bootstrap, topic)
    stream.fail(startingOffsets='{"faults-first":{"0":4}}')
    produce(shared_broker.bootstrap, topic, range(10, 13))
    stream.run(startingOffsets="latest")
    assert stream.values() == texts(range(4, 13))
