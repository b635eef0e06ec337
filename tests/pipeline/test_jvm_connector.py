"""Spark's own Kafka connector, `format("kafka")`, with Ottla as the broker: it reads and writes as
with any other, and our source gives the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.need import need_spark_connector
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject

PARTITIONS = 3
ROWS = 300


@pytest.fixture
def subject(shared_broker: OttlaProcess) -> Iterator[Subject]:
    need_spark_connector()
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        yield subject


def records(spark: SparkSession) -> DataFrame:
    """Some without a key, a value or headers, and a header without a value."""
    return spark.range(ROWS).selectExpr(
        "IF(id % 3 = 0, NULL, CONCAT('k', id % 7)) AS key",
        "IF(id % 11 = 0, NULL, STRING(id)) AS value",
        "IF(id % 5 = 0, NULL, ARRAY(STRUCT('a' AS key, BINARY(STRING(id)) AS value),"
        " STRUCT('b' AS key, BINARY(NULL) AS value))) AS headers",
        f"INT(id % {PARTITIONS}) AS partition",
    )


def read(spark: SparkSession, format_name: str, subject: Subject, topic: str) -> DataFrame:
    return (
        spark.read.format(format_name)
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )


def test_rows_are_the_same_through_both(spark: SparkSession, subject: Subject) -> None:
    subject.create("jvm-batch", PARTITIONS)
    (
        records(spark)
        .write.format("kafka")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("topic", "jvm-batch")
        .option("includeHeaders", "true")
        .save()
    )
    theirs, ours = (read(spark, name, subject, "jvm-batch") for name in ("kafka", "ottla"))
    assert ours.schema == theirs.schema
    order = ["partition", "offset"]
    found = ours.orderBy(order).collect()
    assert len(found) == ROWS
    assert found == theirs.orderBy(order).collect()


def test_a_stream_from_topic_to_topic(
    spark: SparkSession, subject: Subject, tmp_path: Path
) -> None:
    """Theirs reads what ours wrote, and ours what theirs wrote."""
    subject.create("jvm-from", PARTITIONS)
    subject.create("jvm-to", PARTITIONS)
    (
        records(spark)
        .write.format("ottla")
        .mode("append")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("topic", "jvm-from")
        .option("includeHeaders", "true")
        .option("kafka.linger.ms", "5")
        .save()
    )
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("subscribe", "jvm-from")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(ROWS // 2))
        .load()
        .select("key", "value", "headers", "partition")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", subject.bootstrap)
        .option("topic", "jvm-to")
        .option("includeHeaders", "true")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    columns = ["partition", "offset", "key", "value", "headers"]
    came, went = (
        read(spark, "ottla", subject, topic).select(columns).orderBy("partition", "offset")
        for topic in ("jvm-to", "jvm-from")
    )
    found = came.collect()
    assert len(found) == ROWS
    assert found == went.collect()
