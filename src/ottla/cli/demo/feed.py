"""The demo's input: generated activity, with a clock that runs ahead, so that minutes and sessions
come to their end while one watches."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from ottla.cli.client import Cluster
from ottla.cli.generate import Topic, send_all
from ottla.cli.produce import Tally
from ottla.pipeline.generate.activity import Generator
from ottla.pipeline.generate.event import Event

SPEED = 60
"""One second here is one minute of the site."""
_SEED = 1
_FIRST_HOUR = 8
_FLUSH_S = 5.0


class DemoFeed:
    """One thread, from `start` to `stop`. Owned by the demo. `rate` is in records a second, as one
    watches it."""

    def __init__(self, cluster: Cluster, topic: str, rate: int) -> None:
        self.tally = Tally()
        self._producer = cluster.producer({"linger.ms": 5})
        self._target = _Quick(Topic(self._producer, topic, self.tally))
        today = datetime.now(UTC).replace(hour=_FIRST_HOUR, minute=0, second=0, microsecond=0)
        self._start_ms = round(today.timestamp() * 1000)
        self._events = Generator(_SEED, rate / SPEED, self._start_ms)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, name="demo-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._producer.flush(_FLUSH_S)

    def _send(self) -> None:
        events = takewhile(lambda _: not self._is_stopping.is_set(), self._events)
        send_all(events, self._target, self._start_ms, clock=lambda: time.monotonic() * SPEED)


class _Quick:
    """A target whose time runs ahead."""

    def __init__(self, target: Topic) -> None:
        self._target = target

    def send(self, event: Event[Any]) -> None:
        self._target.send(event)

    def pause(self, seconds: float) -> None:
        self._target.pause(seconds / SPEED)
