"""The results of a pipeline as its topics have them: of all records of a key the last counts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ottla.cli.client import METADATA_TIMEOUT_S, REQUEST_TIMEOUT_S, Cluster
from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition, bounds_of

Json = dict[str, Any]

RECORDS_MAX = 20_000
"""Of a partition, the newest: more is not shown, and would take its time to read."""
_BATCH = 1000
_TICK_S = 0.1


class Read(NamedTuple):
    values: dict[str, list[Json]]
    """By topic, in the order in which their keys came first."""
    missing: list[str]
    """Topics that are not there."""
    is_whole: bool
    """False where there is more before what was read."""


def read_results(cluster: Cluster, topics: Sequence[str]) -> Read:
    """Up to what is committed now."""
    admin = cluster.admin()
    known = admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
    partitions = [
        (topic, number) for topic in topics if topic in known for number in known[topic].partitions
    ]
    bounds = bounds_of(admin, partitions)
    starts = {
        key: max(bounds[key].earliest, bounds[key].latest - RECORDS_MAX) for key in partitions
    }
    newest: dict[str, dict[bytes | None, Json]] = {topic: {} for topic in topics}
    unread = {key for key in partitions if starts[key] < bounds[key].latest}
    if unread:
        consumer = cluster.consumer(
            {"isolation.level": "read_committed", "enable.partition.eof": True}
        )
        try:
            consumer.assign([TopicPartition(*key, starts[key]) for key in sorted(unread)])
            _read_to_the_end(consumer, unread, newest)
        finally:
            consumer.close()
    return Read(
        values={topic: list(values.values()) for topic, values in newest.items()},
        missing=[topic for topic in topics if topic not in known],
        is_whole=all(starts[key] == bounds[key].earliest for key in partitions),
    )


def _read_to_the_end(
    consumer: Consumer, unread: set[Partition], newest: dict[str, dict[bytes | None, Json]]
) -> None:
    deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
    while unread:
        messages = consumer.consume(_BATCH, timeout=_TICK_S)
        if messages:
            deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
        elif time.monotonic() >= deadline_s:
            where = ", ".join(f"{topic}:{number}" for topic, number in sorted(unread))
            raise Failure(f"the end of {where} did not come within {REQUEST_TIMEOUT_S:.0f} s")
        for message in messages:
            topic, number, error = message.topic(), message.partition(), message.error()
            assert topic is not None, "it has one, also where it is an error"
            assert number is not None, "as above"
            if error is None:
                _take(newest[topic], message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard((topic, number))
            elif not error.retriable():
                raise KafkaException(error)


def _take(values: dict[bytes | None, Json], key: bytes | None, value: bytes | None) -> None:
    if value is None:
        values.pop(key, None)
        return
    try:
        found = json.loads(value)
    except ValueError:
        return  # not of a pipeline
    if isinstance(found, dict):
        values[key] = found
