"""The demo's records, read back by an ordinary consumer: they show how long a record takes from
one client to another."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from ottla.cli.client import Cluster, message_of
from ottla.cli.demo.feed import SENT_NS

READ_RECORDS = 10
"""So many of the last ones are kept."""
_LATENCIES_MAX = 100_000
_TICK_S = 0.01


class ReadRecord(NamedTuple):
    partition: int
    offset: int
    value: bytes
    latency_ms: float


class ReadBack:
    """One thread, from `start` to `stop`. Owned by the demo. Its fields are written by that thread
    and read by the view; a number that is a moment old does no harm there."""

    def __init__(self, cluster: Cluster, topic: str, partition_count: int) -> None:
        self.count = 0
        self.failed: str | None = None
        self.last_records: deque[ReadRecord] = deque(maxlen=READ_RECORDS)
        self._latencies_ms: deque[float] = deque(maxlen=_LATENCIES_MAX)
        self._topic = topic
        self._unready = set(range(partition_count))
        self._consumer: Consumer = cluster.consumer(
            {"enable.partition.eof": True, "fetch.wait.max.ms": 100}
        )
        self.is_reading = threading.Event()
        """Of all partitions."""
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name="demo-read-back", daemon=True)

    def start(self) -> None:
        self._consumer.assign(
            [TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in sorted(self._unready)]
        )
        self._thread.start()

    def catch_up(self, count: int, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while self.count < count and time.monotonic() < deadline_s:
            time.sleep(_TICK_S)

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._consumer.close()

    def take_latencies(self) -> list[float]:
        """Those of the records that came since the last call, in milliseconds."""
        taken = []
        for _ in range(len(self._latencies_ms)):
            taken.append(self._latencies_ms.popleft())
        return taken

    def _read(self) -> None:
        # `consume` would wait until many records are there.
        poll: Callable[[float], Message | None] = self._consumer.poll
        while not self._is_stopping.is_set():
            message = poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._take(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._unready.discard(message.partition() or 0)
                if not self._unready:
                    self.is_reading.set()
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                self.failed = message_of(KafkaException(error))

    def _take(self, message: Message) -> None:
        sent_ns = int(dict(message.headers() or ()).get(SENT_NS) or 0)
        if not sent_ns:
            return  # somebody else's: the topic is open to all
        latency_ms = (time.monotonic_ns() - sent_ns) / 1e6
        partition, offset = message.partition(), message.offset()
        assert partition is not None, "a record that was stored has a partition"
        assert offset is not None, "a record that was stored has an offset"
        self.count += 1
        self._latencies_ms.append(latency_ms)
        self.last_records.append(ReadRecord(partition, offset, message.value() or b"", latency_ms))
