"""Topics of a benchmark, made and removed by librdkafka's admin client."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.broker import BenchError

_PATIENCE_S = 300

_numbers = itertools.count()


class Served(Protocol):
    """A broker or a cluster."""

    @property
    def address(self) -> str: ...

    @property
    def is_running(self) -> bool: ...

    def wait_for_topic(self, topic: str, partition_count: int) -> None: ...


def create(
    broker: Served,
    stem: str,
    partitions: int = 1,
    replicas: int = 1,
    settings: dict[str, str] | None = None,
) -> str:
    """A topic of a new name, with leaders for all its partitions."""
    name = f"bench-{stem}-{next(_numbers)}"
    admin = _admin(broker)
    topic = NewTopic(name, partitions, replicas, config=settings or {})
    futures = admin.create_topics([topic], request_timeout=_PATIENCE_S)
    futures[name].result(_PATIENCE_S)
    broker.wait_for_topic(name, partitions)
    return name


def delete(broker: Served, name: str) -> None:
    admin = _admin(broker)
    admin.delete_topics([name], request_timeout=_PATIENCE_S)[name].result(_PATIENCE_S)


@contextmanager
def temporary(
    broker: Served,
    stem: str,
    partitions: int = 1,
    replicas: int = 1,
    settings: dict[str, str] | None = None,
) -> Iterator[str]:
    """Removed again after the block, so that a long run does not fill the disk."""
    name = create(broker, stem, partitions, replicas, settings)
    try:
        yield name
    finally:
        if broker.is_running:
            delete(broker, name)


def check_end_offset(broker: Served, name: str, expected: int) -> None:
    """What a client counts as acknowledged must be in the log: guards against a broker (or a
    client of ours) that is quick because it does not do the work."""
    partition = TopicPartition(name, 0)
    admin = _admin(broker)
    futures = admin.list_offsets({partition: OffsetSpec.latest()})
    found = futures[partition].result(_PATIENCE_S).offset
    if found != expected:
        raise BenchError(f"{name} ends at offset {found}, where {expected} was acknowledged")


def check_committed_end(broker: Served, name: str, partitions: int, expected: int) -> None:
    """As above, by the last stable offsets of all partitions together. A transaction is
    acknowledged a little before its markers are written."""
    asked = {TopicPartition(name, each): OffsetSpec.latest() for each in range(partitions)}
    admin = _admin(broker)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        found = sum(each.result(_PATIENCE_S).offset for each in futures.values())
        if found == expected:
            return
        if found > expected or time.monotonic() > deadline:
            raise BenchError(f"{name} has {found} offsets, where {expected} were committed")
        time.sleep(0.02)


def _admin(broker: Served) -> AdminClient:
    """To be kept in a variable until its futures are done: they die with it."""
    # Its events may be let go unserved; librdkafka would say so on the terminal.
    return AdminClient({"bootstrap.servers": broker.address, "log_level": 4})
