"""What a user of Spark writes to a topic, of Ottla and of Apache Kafka, as others read it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.sink.checkpoint import Checkpoint
from ottla.pipeline.sink.ledger import LedgerError
from ottla.pipeline.sink.placement import placed
from ottla.pipeline.sink.sink import write_batch
from ottla.pipeline.sink.write_schema import ColumnError
from tests.support.ottla_process import OttlaProcess
from tests.support.read_back import read_back
from tests.support.side_by_side import Subject

NOW_MS = 1_700_000_000_000
INPUT_PARTITIONS, OUTPUT_PARTITIONS = 8, 3
KEYS = 50
ROWS = 2000


def options(subject: Subject, **others: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in others.items()}
    return {"kafka.bootstrap.servers": subject.bootstrap, **named}


def write(frame: DataFrame, subject: Subject, **others: str) -> None:
    frame.write.format("ottla").options(**options(subject, **others)).mode("append").save()


def keyed(spark: SparkSession, count: int = ROWS) -> DataFrame:
    return spark.range(count).selectExpr(
        f"concat('key-', id % {KEYS}) as key", "cast(id as string) as value"
    )


def committed(subject: Subject, group: str, topic: str, count: int) -> dict[int, int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": subject.bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    wanted = [confluent_kafka.TopicPartition(topic, partition) for partition in range(count)]
    try:
        return {one.partition: one.offset for one in consumer.committed(wanted, 30)}
    finally:
        consumer.close()


def test_all_that_a_record_has(spark: SparkSession, subject: Subject) -> None:
    # The records are years old: by default they would be deleted before they are read.
    subject.create("sink-records", 2, retention_ms="-1")
    frame = spark.range(100).selectExpr(
        "cast(cast(id as string) as binary) as key",
        "if(id = 7, null, cast(id as string)) as value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) as headers",
        "cast(id % 2 as int) as partition",
        f"timestamp_millis({NOW_MS} + id) as timestamp",
        "'ignored' as other",
    )
    write(
        frame,
        subject,
        topic="sink-records",
        includeTimestamp="true",
        kafka_compression_type="zstd",
    )
    found = read_back(subject.bootstrap, "sink-records")
    assert sorted((one.timestamp_ms, one.partition) for one in found) == [
        (NOW_MS + number, number % 2) for number in range(100)
    ]
    for one in found:
        number = one.timestamp_ms - NOW_MS
        assert one.key == b"%d" % number
        assert one.value == (None if number == 7 else b"%d" % number)
        assert one.headers == [("n", b"%d" % number)]


def test_keys_go_where_other_clients_send_them(spark: SparkSession, subject: Subject) -> None:
    subject.create("sink-keys", 5)
    subject.create("sink-keys-too", 5)
    write(keyed(spark, KEYS), subject, topic="sink-keys")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": subject.bootstrap, "partitioner": "murmur2_random"}
    )
    for number in range(KEYS):
        producer.produce("sink-keys-too", key=b"key-%d" % number, value=b"")
    assert producer.flush(30) == 0
    ours, theirs = (
        {one.key: one.partition for one in read_back(subject.bootstrap, topic)}
        for topic in ("sink-keys", "sink-keys-too")
    )
    assert ours == theirs
    assert len(set(ours.values())) == 5


def test_rows_name_their_topics(spark: SparkSession, subject: Subject) -> None:
    for topic in ("sink-even", "sink-odd"):
        subject.create(topic, 2)
    frame = spark.range(100).selectExpr(
        "cast(id as string) as value", "if(id % 2 = 0, 'sink-even', 'sink-odd') as topic"
    )
    write(frame, subject)
    assert write_batch(
        frame,
        options(subject, kafka_transactional_id="sink-topics"),
        query_id="query",
        batch_id=0,
        offsets={TopicPartition("sink-even", 0): 5},
    )
    for topic, rest in (("sink-even", 0), ("sink-odd", 1)):
        values = sorted(int(one.value or b"") for one in read_back(subject.bootstrap, topic))
        assert values == sorted([*range(rest, 100, 2)] * 2)


def test_what_cannot_be_written(spark: SparkSession, subject: Subject) -> None:
    subject.create("sink-errors", 2)
    rows = spark.range(1).selectExpr("cast(id as string) as value")
    for frame, others, words in (
        (rows, {}, "column topic: is missing"),
        (rows, {"topic": "sink-not-there"}, "there is no topic sink-not-there"),
        (
            rows.selectExpr("*", "2 as partition"),
            {"topic": "sink-errors"},
            "partition is 2, but topic sink-errors has 2",
        ),
    ):
        with pytest.raises(PySparkException, match=words):
            write(frame, subject, **others)
    with pytest.raises(ColumnError, match="column value: is missing"):
        write_batch(
            rows.selectExpr("value as other"),
            options(subject, topic="sink-errors"),
            query_id="",
            batch_id=0,
            offsets={},
        )
    assert read_back(subject.bootstrap, "sink-errors") == []


def test_a_batch_is_there_as_a_whole_or_not_at_all(spark: SparkSession, subject: Subject) -> None:
    subject.create("sink-whole", 2)
    others = {"topic": "sink-whole", "kafka_transactional_id": "sink-whole"}
    numbers = spark.range(0, 1000, 1, 2).selectExpr("id", "spark_partition_id() as partition")
    broken = numbers.selectExpr(
        "if(id = 999, raise_error('no'), cast(id as string)) as value", "partition"
    )
    with pytest.raises(PySparkException, match="no"):
        write(broken, subject, **others)
    assert read_back(subject.bootstrap, "sink-whole") == []
    write(numbers.selectExpr("cast(id as string) as value", "partition"), subject, **others)
    assert len(read_back(subject.bootstrap, "sink-whole")) == 1000


def test_a_replayed_batch_writes_nothing(spark: SparkSession, subject: Subject) -> None:
    subject.create("sink-batches", OUTPUT_PARTITIONS)
    given = options(subject, topic="sink-batches", kafka_transactional_id="sink-batches")
    place = TopicPartition("sink-batches", 0)

    def batch(batch_id: int, query_id: str = "query", **others: Any) -> bool:
        return write_batch(
            keyed(spark, 100),
            given,
            query_id=query_id,
            batch_id=batch_id,
            offsets={place: 10 * (batch_id + 1)},
            **others,
        )

    assert [batch(0), batch(0), batch(1, starts={place: 10}), batch(1)] == [
        True,
        False,
        True,
        False,
    ]
    with pytest.raises(LedgerError, match="older than the output"):
        batch(0)
    with pytest.raises(LedgerError, match="another copy has gone on"):
        batch(1, "another", starts={place: 10})
    assert batch(0, "another")
    assert len(read_back(subject.bootstrap, "sink-batches")) == 300
    assert committed(subject, "sink-batches", "sink-batches", 1) == {0: 10}


# -- streams -----------------------------------------------------------------------------------


def fill(spark: SparkSession, subject: Subject, name: str) -> None:
    """Each key's rows are in one partition of the input, in the order of their numbers."""
    subject.create(f"{name}-in", INPUT_PARTITIONS)
    subject.create(f"{name}-out", OUTPUT_PARTITIONS)
    write(keyed(spark).coalesce(1), subject, topic=f"{name}-in")


def stream(
    spark: SparkSession,
    subject: Subject,
    name: str,
    folder: Path,
    given: Mapping[str, str],
    *,
    batches: int = 3,
) -> StreamingQuery:
    frame = (
        spark.readStream.format("ottla")
        .options(**options(subject, subscribe=f"{name}-in", startingOffsets="earliest"))
        .option("maxOffsetsPerTrigger", str(ROWS // batches))
        .option("columns", "key,value")
        .load()
    )
    if "kafka.transactional.id" in given and folder.name != "unplaced":
        frame = placed(frame, given)
    return (
        frame.writeStream.format("ottla")
        .options(**given)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )


def test_a_stream_exactly_once(spark: SparkSession, subject: Subject, tmp_path: Path) -> None:
    """Eight partitions to three, by key: every row once, each key's in order, and the group where
    the input ends."""
    fill(spark, subject, "sink-once")
    given = options(
        subject,
        topic="sink-once-out",
        kafka_transactional_id="sink-once",
        kafka_group_id="sink-once-group",
    )
    folder = tmp_path / "checkpoint"
    query = stream(spark, subject, "sink-once", folder, given)
    assert query.awaitTermination(90)
    assert query.exception() is None
    rows = defaultdict(list)
    for one in read_back(subject.bootstrap, "sink-once-out"):
        rows[one.key].append((one.partition, int(one.value or b"")))
    assert len(rows) == KEYS
    for number in range(KEYS):
        found = rows[b"key-%d" % number]
        assert {partition for partition, _ in found} == {found[0][0]}
        assert [value for _, value in found] == list(range(number, ROWS, KEYS))
    checkpoint = Checkpoint(str(folder))
    last = checkpoint.last_committed()
    assert last is not None
    assert last >= 2
    ends = checkpoint.offsets(last).offsets
    assert sum(ends.values()) == ROWS
    found_ends = committed(subject, "sink-once-group", "sink-once-in", INPUT_PARTITIONS)
    assert {where.partition: end for where, end in ends.items()} == found_ends


def test_a_plain_stream(spark: SparkSession, subject: Subject, tmp_path: Path) -> None:
    fill(spark, subject, "sink-plain")
    given = options(subject, topic="sink-plain-out", kafka_compression_type="lz4")
    assert stream(spark, subject, "sink-plain", tmp_path / "plain", given).awaitTermination(90)
    found = read_back(subject.bootstrap, "sink-plain-out")
    assert sorted(int(one.value or b"") for one in found) == list(range(ROWS))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("is_once", [True, False], ids=["exactly once", "plain"])
def test_a_broker_that_goes_away_and_comes_back_is_waited_for(
    spark: SparkSession, broker: OttlaProcess, tmp_path: Path, is_once: bool
) -> None:
    """In the middle of writes, three times."""
    with Subject("Ottla", broker.bootstrap) as subject:
        fill(spark, subject, "sink-away")
        given = options(subject, topic="sink-away-out")
        if is_once:
            given["kafka.transactional.id"] = "sink-away"
        query = stream(spark, subject, "sink-away", tmp_path / "checkpoint", given, batches=20)
        for done in (2, 8, 14):
            while query.isActive and len(query.recentProgress) < done:
                time.sleep(0.05)
            broker.kill()
            time.sleep(0.5)
            broker.start()
        assert query.awaitTermination(120)
        assert query.exception() is None
        found = read_back(subject.bootstrap, "sink-away-out")
    values = Counter(int(one.value or b"") for one in found)
    assert values.keys() == set(range(ROWS))
    assert not is_once or set(values.values()) == {1}


def test_two_tasks_on_one_partition(spark: SparkSession, subject: Subject, tmp_path: Path) -> None:
    """Rows that nobody placed: the error says what to do, and readers see nothing."""
    fill(spark, subject, "sink-clash")
    given = options(subject, topic="sink-clash-out", kafka_transactional_id="sink-clash")
    query = stream(spark, subject, "sink-clash", tmp_path / "unplaced", given)
    with pytest.raises(StreamingQueryException, match=r"placement\.placed\("):
        query.awaitTermination(90)
    assert read_back(subject.bootstrap, "sink-clash-out") == []
