"""Records read back, over a topic in memory."""

from __future__ import annotations

import queue
import time
from typing import Any

from confluent_kafka import KafkaError

from ottla.cli.demo.feed import SENT_NS
from ottla.cli.demo.read_back import READ_RECORDS, ReadBack


class FakeMessage:
    def __init__(self, offset: int = 0, *, sent_ns: int = 0, error: int | None = None) -> None:
        headers = [(SENT_NS, str(sent_ns).encode())] if sent_ns else None
        self.partition = lambda: 0
        self.offset = lambda: offset
        self.value = lambda: b"{}"
        self.headers = lambda: headers
        self.error = lambda: None if error is None else KafkaError(error)


class FakeConsumer:
    def __init__(self) -> None:
        self.log: queue.Queue[FakeMessage] = queue.Queue()
        self.assigned: list[tuple[str, int]] = []
        self.is_closed = False

    def assign(self, positions: Any) -> None:
        self.assigned = [(position.topic, position.partition) for position in positions]

    def poll(self, timeout: float) -> FakeMessage | None:
        try:
            return self.log.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        self.is_closed = True


def read_back_over(consumer: FakeConsumer, partition_count: int = 1) -> ReadBack:
    cluster: Any = type("FakeCluster", (), {"consumer": lambda self, settings: consumer})()
    return ReadBack(cluster, "activity", partition_count)


def test_it_reads_and_tells_how_long_records_took() -> None:
    consumer = FakeConsumer()
    read_back = read_back_over(consumer, 2)
    consumer.log.put(FakeMessage(error=KafkaError._PARTITION_EOF))
    read_back.start()
    for offset in range(20):
        consumer.log.put(FakeMessage(offset, sent_ns=time.monotonic_ns() - 5_000_000))
    consumer.log.put(FakeMessage(20))  # somebody else's
    read_back.catch_up(20, 30)
    read_back.stop()

    assert consumer.assigned == [("activity", 0), ("activity", 1)]
    assert consumer.is_closed
    assert read_back.count == 20
    assert [record.offset for record in read_back.last_records] == list(
        range(20 - READ_RECORDS, 20)
    )
    latencies = read_back.take_latencies()
    assert len(latencies) == 20
    assert min(latencies) >= 5
    assert read_back.take_latencies() == []


def test_it_says_when_it_reads_all_partitions() -> None:
    consumer = FakeConsumer()
    read_back = read_back_over(consumer)
    read_back.start()
    assert not read_back.is_reading.is_set()
    consumer.log.put(FakeMessage(error=KafkaError._PARTITION_EOF))
    assert read_back.is_reading.wait(60)
    read_back.stop()


def test_a_failure_is_kept_and_what_passes_is_not() -> None:
    consumer = FakeConsumer()
    read_back = read_back_over(consumer)
    consumer.log.put(FakeMessage(error=KafkaError._ALL_BROKERS_DOWN))
    consumer.log.put(FakeMessage(error=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    consumer.log.put(FakeMessage(0, sent_ns=1))
    read_back.start()
    read_back.catch_up(1, 30)
    read_back.stop()

    assert read_back.failed is not None
    assert "TOPIC_AUTHORIZATION_FAILED" in read_back.failed
