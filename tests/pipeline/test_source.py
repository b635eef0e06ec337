"""What a user of Spark reads from a topic, of Ottla and of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.support.side_by_side import Subject

NOW_MS = 1_700_000_000_000
RECORDS_A_PARTITION = 500
SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    "timestamp:timestamp,timestampType:int>"
)


def fill(subject: Subject, topic: str) -> None:
    # Its records are years old: by default they would be deleted before they are read.
    subject.create(topic, 2, retention_ms="-1")
    for partition in range(2):
        produce(subject, topic, partition, range(RECORDS_A_PARTITION))


def produce(subject: Subject, topic: str, partition: int, numbers: range) -> None:
    """Every tenth record has a header, every second one a key."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": subject.bootstrap, "compression.type": "lz4"}
    )
    for number in numbers:
        producer.produce(
            topic,
            partition=partition,
            key=b"k%d" % number if number % 2 else None,
            value=b"%d" % number,
            timestamp=NOW_MS + number,
            headers=[("n", b"%d" % number)] if number % 10 == 0 else None,
        )
    assert producer.flush(30) == 0


def read(spark: SparkSession, subject: Subject, **options: str) -> DataFrame:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", subject.bootstrap)
    return reader.options(**options).load()


def test_rows_are_those_of_sparks_connector(spark: SparkSession, subject: Subject) -> None:
    fill(subject, "source-rows")
    frame = read(spark, subject, subscribe="source-rows")
    assert frame.schema.simpleString() == SCHEMA
    rows = frame.selectExpr(
        "topic", "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType"
    ).collect()
    expected = [
        ("source-rows", partition, number, key, b"%d" % number, NOW_MS + number, 0)
        for partition in range(2)
        for number in range(RECORDS_A_PARTITION)
        for key in [b"k%d" % number if number % 2 else None]
    ]
    assert sorted(map(tuple, rows), key=lambda row: row[1:3]) == expected


def test_pieces_headers_and_columns(spark: SparkSession, subject: Subject) -> None:
    fill(subject, "source-pieces")
    frame = read(
        spark, subject, subscribePattern="source-piec.s", minPartitions="6", columns="headers"
    )
    assert frame.rdd.getNumPartitions() == 6
    rows = frame.where("headers is not null").collect()
    found = sorted(int(row.headers[0].value) for row in rows)
    assert found == sorted([*range(0, RECORDS_A_PARTITION, 10)] * 2)
    assert frame.count() == 2 * RECORDS_A_PARTITION


def test_from_offsets_and_times_up_to_others(spark: SparkSession, subject: Subject) -> None:
    fill(subject, "source-bounds")
    starts = '{"source-bounds":{"0":490,"1":-2}}'
    frame = read(spark, subject, subscribe="source-bounds", startingOffsets=starts)
    assert frame.groupBy("partition").count().orderBy("partition").collect() == [
        (0, 10),
        (1, RECORDS_A_PARTITION),
    ]
    frame = read(
        spark,
        subject,
        assign='{"source-bounds":[1]}',
        startingTimestamp=str(NOW_MS + 100),
        endingTimestamp=str(NOW_MS + 103),
    )
    assert sorted(row.offset for row in frame.collect()) == [100, 101, 102]


def test_an_empty_topic_has_no_rows(spark: SparkSession, subject: Subject) -> None:
    subject.create("source-empty", 3)
    assert read(spark, subject, subscribe="source-empty").count() == 0


def test_errors_name_the_option(spark: SparkSession, subject: Subject) -> None:
    with pytest.raises(AnalysisException, match="did you mean startingOffsets"):
        read(spark, subject, subscribe="source-errors", startingOffset="earliest")
    with pytest.raises(PySparkException, match="option subscribe: there is no topic source-errors"):
        read(spark, subject, subscribe="source-errors").count()


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    """All that is there, in limited batches; then what came since, and a partition added."""
    fill(subject, "source-stream")
    assert run_available(spark, subject, tmp_path) > 3
    produce(subject, "source-stream", 0, range(RECORDS_A_PARTITION, RECORDS_A_PARTITION + 7))
    wanted = CreatePartitionsTopic(name="source-stream", count=3, assignments=None)
    answer = subject.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000))
    assert [one.error_code for one in answer.results] == [0]
    subject.wait_until_led("source-stream")
    produce(subject, "source-stream", 2, range(5))
    run_available(spark, subject, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "out")).select("partition", "offset").collect()
    expected = {0: RECORDS_A_PARTITION + 7, 1: RECORDS_A_PARTITION, 2: 5}
    assert sorted(map(tuple, rows)) == [
        (partition, offset) for partition, count in expected.items() for offset in range(count)
    ]


def run_available(spark: SparkSession, subject: Subject, folder: Path) -> int:
    """How many batches had rows."""
    frame = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("subscribe", "source-stream")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "300")
        .load()
    )
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    counts = [progress.numInputRows for progress in query.recentProgress]
    assert max(counts) <= 300
    return sum(1 for count in counts if count)
