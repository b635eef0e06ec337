"""What confluent-kafka's Consumer gives and takes, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event
from types import SimpleNamespace
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, TopicPartition


class FakeMessage:
    def __init__(
        self,
        value: bytes | None = b"v",
        *,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        topic: str | None = "t",
        partition: int = 0,
        offset: int = 7,
        timestamp: tuple[int, int] = (TIMESTAMP_CREATE_TIME, 1_700_000_000_123),
        error: int | None = None,
    ) -> None:
        self.value = lambda: value
        self.key = lambda: key
        self.headers = lambda: headers
        self.topic = lambda: topic
        self.partition = lambda: partition
        self.offset = lambda: offset
        self.timestamp = lambda: timestamp
        self.error = lambda: None if error is None else KafkaError(error)


def a_message(*args: Any, **kwargs: Any) -> Any:
    return FakeMessage(*args, **kwargs)


def end_of(partition: int, offset: int = 8) -> Any:
    return FakeMessage(partition=partition, offset=offset, error=KafkaError._PARTITION_EOF)


class FakeConsumer:
    """Has topics with partitions of the offsets 10 to 50, gives the batches one after another,
    then somebody presses Ctrl-C. Writes down what it is told."""

    def __init__(self, *batches: list[Any], topics: Mapping[str, int] | None = None) -> None:
        self._batches = [list(batch) for batch in batches]
        self.stop = Event()
        if not batches:
            self.stop.set()
        self.topics = dict(topics or {"t": 2})
        self.assigned: list[tuple[str, int, int]] = []
        self.subscribed: list[str] = []
        self.committed: list[tuple[bool, dict[tuple[str, int], int]]] = []
        """Whether it was waited for, and what."""
        self.commit_error: int | None = None

    def poll(self, _timeout: float) -> Any:
        return self._batches[0].pop(0)

    def consume(self, _count: int, timeout: float) -> list[Any]:
        batch = self._batches.pop(0)
        if not self._batches:
            self.stop.set()
        return batch

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        found = {
            name: SimpleNamespace(error=None, partitions=dict.fromkeys(range(count)))
            for name, count in self.topics.items()
        }
        if topic is None:
            return SimpleNamespace(topics=found)
        missing = SimpleNamespace(error=unknown, partitions={})
        return SimpleNamespace(topics={topic: found.get(topic, missing)})

    def get_watermark_offsets(self, _: TopicPartition, *, timeout: float) -> tuple[int, int]:
        return 10, 50

    def offsets_for_times(
        self, asked: Sequence[TopicPartition], *, timeout: float
    ) -> list[TopicPartition]:
        return [TopicPartition(one.topic, one.partition, 33) for one in asked]

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned += [(one.topic, one.partition, one.offset) for one in partitions]

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.subscribed = topics
        self._callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost}

    def rebalance(self, what: str, *partitions: tuple[str, int]) -> None:
        """As the coordinator would have it: assign, revoke or lost."""
        self._callbacks[what](self, [TopicPartition(*one) for one in partitions])

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        if self.commit_error is not None and not asynchronous:
            raise KafkaException(KafkaError(self.commit_error))
        found = {(one.topic, one.partition): one.offset for one in offsets}
        self.committed.append((not asynchronous, found))
