"""The demo's input: generated activity of a site, by the site's clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from ottla.cli.client import Cluster, message_of
from ottla.cli.demo.site_clock import SPEED, SiteClock
from ottla.pipeline.generate.activity import Generator
from ottla.pipeline.generate.event import Event

SENT_NS = "sent-ns"
"""The header that says when a record was sent, by the monotonic clock of this machine."""
_SEED = 1
_EVENTS_A_POLL = 100
_POLL_S_MAX = 0.05
_TICK_S = 0.01
"""To wait for each record would take most of a processor: librdkafka knows no part of a ms."""
_START_S_MAX = 2.0


class Feed:
    """One thread, from `start` to `stop`. Owned by the demo. `rate` is in records a second, as one
    watches it. It begins when somebody reads, or after some seconds: without that the first
    latencies would be those of the reader's own start."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        rate: int,
        site: SiteClock,
        is_read: threading.Event,
    ) -> None:
        self.sent = 0
        self.delivered = 0
        self.failed: str | None = None
        """What became of the last record that was not delivered."""
        self._topic = topic
        self._producer = cluster.producer({"acks": "all", "linger.ms": 1})
        self._site = site
        self._is_read = is_read
        self._events: Iterable[Event[Any]] = Generator(_SEED, rate / SPEED, site.start_ms)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """What was not delivered after this time is not counted. May be called again."""
        self._is_stopping.set()
        self._thread.join()
        self._producer.flush(timeout_s)

    def _run(self) -> None:
        until_s = time.monotonic() + _START_S_MAX
        while not self._is_read.is_set() and time.monotonic() < until_s:
            if self._is_stopping.wait(_TICK_S):
                return
        began_s = time.monotonic()
        self.send(lambda: time.monotonic() - began_s)

    def send(self, elapsed_s: Callable[[], float]) -> None:
        """Each event when its time has come, until `stop`."""
        for event in self._events:
            due_s = self._site.due_s(event.arrival_ms)
            while (left_s := due_s - elapsed_s()) > 0 and not self._is_stopping.is_set():
                self._producer.poll(min(max(left_s, _TICK_S), _POLL_S_MAX))
            if self._is_stopping.is_set():
                return
            self._produce(event)
            if self.sent % _EVENTS_A_POLL == 0:
                self._producer.poll(0)

    def _produce(self, event: Event[Any]) -> None:
        while not self._is_stopping.is_set():
            try:
                # The record's own timestamp is left to the client: it is now, not the site's time.
                self._producer.produce(
                    self._topic,
                    event.value,
                    event.key,
                    headers=[(SENT_NS, str(time.monotonic_ns()).encode())],
                    on_delivery=self._on_delivery,
                )
            except BufferError:  # librdkafka's queue is full: wait for deliveries
                self._producer.poll(_POLL_S_MAX)
            else:
                self.sent += 1
                return

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed = message_of(KafkaException(error))
