"""Topics to mirror, mirrors that run, and what a reader of either cluster finds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, TIMESTAMP_CREATE_TIME
from pyspark.sql import SparkSession

from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.jobs.mirror import JOB
from ottla.pipeline.jobs.mirror_hops import HEADER
from ottla.pipeline.run.settings import new_settings
from tests.support import job_runs
from tests.support.markers import wait_for_markers

Headers = list[tuple[str, bytes | None]]


class Record(NamedTuple):
    """As a consumer sees it, but for its offset and where it has been."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


Found = dict[int, list[Record]]
"""By partition, in order."""


def settings_of(source: str, target: str, folder: Path, topics: str, **flags: Any) -> Settings:
    """With a pattern of topics."""
    given = {
        "bootstrap": source,
        "target": target,
        "topic_pattern": topics,
        "folder": str(folder),
        "lake": str(folder / "lake"),
        "sync_seconds": "0",
        **flags,
    }
    return new_settings(JOB, given)


def run_once(spark: SparkSession, settings: Settings) -> None:
    """Until all that is there is copied."""
    job_runs.run_once(spark, JOB, settings)


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[int, Record]],
    *,
    compression: str = "none",
    transactional_id: str | None = None,
    is_aborted: bool = False,
) -> None:
    """Each to its partition; in one transaction where there is an id."""
    config = {"bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 5}
    if transactional_id is not None:
        config["transactional.id"] = transactional_id
    producer = confluent_kafka.Producer(config)
    if transactional_id is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    for partition, record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            partition=partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
    assert producer.flush(30) == 0
    if transactional_id is not None:
        (producer.abort_transaction if is_aborted else producer.commit_transaction)(30)
        wait_for_markers(bootstrap, topic)


def records_of(
    bootstrap: str,
    topic: str,
    *,
    group: str | None = None,
    partitions: Collection[int] | None = None,
) -> Found:
    """All that a reader of committed records gets; of a group, from its offsets on."""
    wait_for_markers(bootstrap, topic)
    start = OFFSET_BEGINNING if group is None else OFFSET_STORED
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        if partitions is None:
            partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        found: Found = {partition: [] for partition in sorted(partitions)}
        consumer.assign([confluent_kafka.TopicPartition(topic, one, start) for one in found])
        waiting = set(found)
        while waiting:
            message: Any = consumer.poll(60)
            assert message is not None, f"nothing comes of {topic}, partitions {waiting}"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                waiting.discard(message.partition())
                continue
            kind, timestamp = message.timestamp()
            assert kind == TIMESTAMP_CREATE_TIME
            headers = tuple(one for one in message.headers() or [] if one[0] != HEADER)
            found[message.partition()].append(
                Record(message.key(), message.value(), timestamp, headers)
            )
        return found
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """As a consumer of the group would, with its partition as metadata."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        wanted = [
            confluent_kafka.TopicPartition(topic, partition, offset, f"at {partition}")
            for partition, offset in offsets.items()
        ]
        consumer.commit(offsets=wanted, asynchronous=False)
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topic: str, count: int) -> dict[int, tuple[int, str]]:
    """Offset and metadata of partitions that have one."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        wanted = [confluent_kafka.TopicPartition(topic, partition) for partition in range(count)]
        found = consumer.committed(wanted, 30)
        return {one.partition: (one.offset, one.metadata or "") for one in found if one.offset >= 0}
    finally:
        consumer.close()
