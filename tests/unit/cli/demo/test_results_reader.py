"""The results of the activity pipeline, read while it runs."""

from __future__ import annotations

import json
import queue
import time
from typing import Any

from ottla.cli.demo.results_reader import ResultsReader
from ottla.cli.pipeline.results.activity_results import TOPICS, TRAFFIC, Traffic

MINUTE = "2026-01-01T08:00:00.000Z"
A_MINUTE = {"window": "minute", "start": MINUTE, "page_views": 2, "visitors": 1}


class FakeMessage:
    def __init__(self, topic: str, value: bytes | None, error: str | None = None) -> None:
        self.topic = lambda: topic
        self.value = lambda: value
        self.error = lambda: error


class FakeConsumer:
    def __init__(self, messages: list[FakeMessage]) -> None:
        self._messages: queue.Queue[FakeMessage] = queue.Queue()
        for message in messages:
            self._messages.put(message)
        self.assigned: list[str] = []
        self.is_closed = False

    def assign(self, positions: list[Any]) -> None:
        self.assigned = [position.topic for position in positions]

    def consume(self, _count: int, timeout: float) -> list[FakeMessage]:
        try:
            return [self._messages.get(timeout=timeout)]
        except queue.Empty:
            return []

    def close(self) -> None:
        self.is_closed = True


def test_it_reads_until_it_is_stopped() -> None:
    consumer = FakeConsumer(
        [
            FakeMessage(TRAFFIC, None, error="gone for a moment"),
            FakeMessage(TRAFFIC, b"hello"),
            FakeMessage(TRAFFIC, json.dumps(A_MINUTE).encode()),
        ]
    )
    cluster: Any = type("FakeCluster", (), {"consumer": lambda self, settings: consumer})()
    reader = ResultsReader(cluster)
    reader.start()
    while not reader.results.minutes:
        time.sleep(0.01)
    reader.stop()

    assert consumer.assigned == list(TOPICS)
    assert consumer.is_closed
    assert reader.results.minutes == {MINUTE: Traffic(2, 1)}
    assert reader.results.passed_over == 1
