"""The demo's stream: made-up page views go into a topic and come back out of it."""

from __future__ import annotations

import json
import random
import threading
import time
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic

from ottla.cli.client import Cluster, message_of, one_line, wait_for
from ottla.cli.errors import Failure
from ottla.cli.latency import Summary, summary_of

PARTITIONS = 3
_USERS = ("ada", "bela", "chen", "dara", "emil", "fatou", "goran", "hana", "ines", "jonas")
_PAGES = ("/", "/search", "/pricing", "/docs", "/docs/start", "/blog", "/cart", "/checkout")
_SHOWN_EVENTS = 8
_LATENCY_WINDOW = 5_000
_CATCH_UP_S = 5.0
_TICK_S = 0.01


class Event(NamedTuple):
    partition: int
    offset: int
    user: str
    page: str
    latency_ms: float


@dataclass(slots=True)
class Counts:
    """What the two threads have done. Each field is written by one of them and read by the
    view; a number that is a moment old does no harm there."""

    sent: int = 0
    acknowledged: int = 0
    read: int = 0
    failed: str | None = None
    written_offsets: dict[int, int] = field(default_factory=dict)
    read_offsets: dict[int, int] = field(default_factory=dict)
    last_events: deque[Event] = field(default_factory=lambda: deque(maxlen=_SHOWN_EVENTS))
    latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCY_WINDOW))

    def latency(self) -> Summary | None:
        # A deque may not change while it is walked; copying one is a single step of the
        # interpreter.
        return summary_of(array("d", self.latencies_ms.copy()))


class DemoStream:
    """Two threads, from `start` to `stop`. Owned by the demo command."""

    def __init__(self, cluster: Cluster, topic: str, rate: int, rng: random.Random) -> None:
        self._topic = topic
        self._rate = rate
        self._rng = rng
        self.counts = Counts()
        self._make_topic(cluster)
        self._producer: Producer = cluster.producer({"acks": "all", "linger.ms": 1})
        self._consumer: Consumer = cluster.consumer(
            {
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
        )
        self._unready = set(range(PARTITIONS))
        self._is_reading = threading.Event()
        self._is_stopping = threading.Event()
        self._has_drained = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, name="demo-write", daemon=True),
            threading.Thread(target=self._read, name="demo-read", daemon=True),
        ]

    def start(self) -> None:
        positions = [TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)]
        self._consumer.assign(positions)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends writing, and gives the reader time to catch up."""
        self._is_stopping.set()
        self._threads[0].join()
        deadline_s = time.monotonic() + _CATCH_UP_S
        while self.counts.read < self.counts.acknowledged and time.monotonic() < deadline_s:
            time.sleep(_TICK_S)
        self._has_drained.set()
        self._threads[1].join()
        self._consumer.close()

    def _make_topic(self, cluster: Cluster) -> None:
        new_topic = NewTopic(self._topic, num_partitions=PARTITIONS, replication_factor=-1)
        admin = cluster.admin()  # held on to: without its client a request is dropped
        _, failures = wait_for(admin.create_topics([new_topic]))
        if failures:
            raise Failure(f"could not create {one_line(failures.items())}")

    def _write(self) -> None:
        # Only then, or the latency would be that of the reader's own start.
        self._is_reading.wait(_CATCH_UP_S)
        started_s = time.monotonic()
        while not self._is_stopping.is_set():
            due = int((time.monotonic() - started_s) * self._rate)
            while self.counts.sent < due:
                self._send_one()
            self._producer.poll(_TICK_S)
        self._producer.flush(_CATCH_UP_S)

    def _send_one(self) -> None:
        user = self._rng.choice(_USERS)
        event = {"user": user, "page": self._rng.choice(_PAGES), "sent_ns": time.monotonic_ns()}
        self._producer.produce(
            self._topic, json.dumps(event).encode(), user.encode(), on_delivery=self._on_delivery
        )
        self.counts.sent += 1

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.counts.failed = message_of(KafkaException(error))
            return
        self.counts.acknowledged += 1
        partition, offset = _place_of(message)
        self.counts.written_offsets[partition] = offset

    def _read(self) -> None:
        while not self._has_drained.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._take(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._unready.discard(message.partition() or 0)
                if not self._unready:
                    self._is_reading.set()
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                self.counts.failed = message_of(KafkaException(error))

    def _take(self, message: Message) -> None:
        event = json.loads(message.value() or b"{}")
        latency_ms = (time.monotonic_ns() - event["sent_ns"]) / 1e6
        partition, offset = _place_of(message)
        counts = self.counts
        counts.read += 1
        counts.read_offsets[partition] = offset
        counts.latencies_ms.append(latency_ms)
        counts.last_events.append(
            Event(partition, offset, event["user"], event["page"], latency_ms)
        )


def _place_of(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None, "a record that was stored has a partition"
    assert offset is not None, "a record that was stored has an offset"
    return partition, offset
