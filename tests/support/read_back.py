"""What is in a topic, as another client sees it that reads committed records only."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import confluent_kafka

from tests.support.markers import wait_for_markers

_TIMEOUT_S = 60


class Found(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


def read_back(bootstrap: str, topic: str) -> list[Found]:
    """All of it, each partition's in order, once every transaction has ended."""
    wait_for_markers(bootstrap, topic)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "read-back",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, one, 0) for one in partitions])
        return _to_the_end(consumer, len(partitions))
    finally:
        consumer.close()


def _to_the_end(consumer: confluent_kafka.Consumer, partition_count: int) -> list[Found]:
    found: list[Found] = []
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < partition_count:
        assert time.monotonic() < deadline, f"only {ended} of {partition_count} came to an end"
        message = consumer.poll(1)
        if message is None:
            continue
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if (error := message.error()) is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended.add(partition)
            continue
        headers: Any = message.headers() or []
        found.append(
            Found(
                partition, offset, message.key(), message.value(), headers, message.timestamp()[1]
            )
        )
    return sorted(found)
