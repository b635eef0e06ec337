"""The demo's stream, over a topic in memory."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.cli.demo.stream import PARTITIONS, Counts, DemoStream
from ottla.cli.errors import Failure
from ottla.cli.latency import Summary


class FakeMessage:
    def __init__(
        self, partition: int, offset: int = 0, value: bytes = b"", error: int | None = None
    ) -> None:
        self.partition = lambda: partition
        self.offset = lambda: offset
        self.value = lambda: value
        self.error = lambda: None if error is None else KafkaError(error)


class FakeTopic:
    """Producer, consumer and admin of a topic with one partition that is ever written to."""

    def __init__(self, create_error: int | None = None, deliver_error: int | None = None) -> None:
        self._create_error = create_error
        self._deliver_error = deliver_error
        self._log: queue.Queue[FakeMessage] = queue.Queue()
        self._acknowledge: list[Callable[[], None]] = []
        self._offset = 0
        for partition in range(PARTITIONS):
            self._log.put(FakeMessage(partition, error=KafkaError._PARTITION_EOF))

    def admin(self) -> FakeTopic:
        return self

    def producer(self, _settings: object) -> FakeTopic:
        return self

    def consumer(self, _settings: object) -> FakeConsumer:
        return FakeConsumer(self._log)

    def create_topics(self, topics: list[Any]) -> dict[str, Future[None]]:
        future: Future[None] = Future()
        if self._create_error is None:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(KafkaError(self._create_error)))
        return {topics[0].topic: future}

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Any) -> None:
        message = FakeMessage(0, self._offset, value)
        self._offset += 1
        if self._deliver_error is None:
            self._log.put(message)
            self._acknowledge.append(lambda: on_delivery(None, message))
        else:
            error = KafkaError(self._deliver_error)
            self._acknowledge.append(lambda: on_delivery(error, message))

    def poll(self, timeout: float) -> None:
        time.sleep(timeout)
        self.flush(timeout)

    def flush(self, _timeout: float) -> None:
        for acknowledge in self._acknowledge:
            acknowledge()
        self._acknowledge.clear()


class FakeConsumer:
    def __init__(self, log: queue.Queue[FakeMessage]) -> None:
        self._log = log
        self.is_closed = False

    def assign(self, _positions: object) -> None:
        pass

    def poll(self, timeout: float) -> FakeMessage | None:
        try:
            return self._log.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        self.is_closed = True


def stream_over(topic: FakeTopic) -> DemoStream:
    cluster: Any = topic
    return DemoStream(cluster, "page-views", 1000, random.Random(1))


def test_what_is_written_comes_back() -> None:
    stream = stream_over(FakeTopic())
    stream.start()
    while stream.counts.read < 20:
        time.sleep(0.01)
    stream.stop()

    counts = stream.counts
    assert counts.read == counts.acknowledged == counts.sent >= 20
    assert counts.written_offsets == counts.read_offsets == {0: counts.sent - 1}
    assert counts.failed is None
    assert counts.last_events[-1].offset == counts.sent - 1
    assert counts.latency() is not None


def test_a_failed_delivery_is_kept_for_the_view() -> None:
    stream = stream_over(FakeTopic(deliver_error=KafkaError._MSG_TIMED_OUT))
    stream.start()
    while stream.counts.failed is None:
        time.sleep(0.01)
    stream.stop()

    assert "MSG_TIMED_OUT" in stream.counts.failed
    assert stream.counts.acknowledged == 0


def test_a_topic_that_can_not_be_made_is_a_failure() -> None:
    with pytest.raises(Failure, match=r"could not create page-views: .*POLICY_VIOLATION"):
        stream_over(FakeTopic(create_error=KafkaError.POLICY_VIOLATION))


def test_latency_of_the_counts() -> None:
    counts = Counts()
    assert counts.latency() is None
    counts.latencies_ms.extend([1.0, 2.0, 3.0])
    assert counts.latency() == Summary(2.0, 3.0, 3.0, 3.0)
