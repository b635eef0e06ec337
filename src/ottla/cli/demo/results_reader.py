"""Reads what the activity pipeline has found out while it finds it."""

from __future__ import annotations

import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ottla.cli.client import Cluster
from ottla.cli.pipeline.results.activity_results import TOPICS, Results


class ResultsReader:
    """One thread, from `start` to `stop`. Owned by the demo. The topics have one partition each."""

    def __init__(self, cluster: Cluster) -> None:
        self.results = Results()
        self._consumer: Consumer = cluster.consumer(
            {"isolation.level": "read_committed", "fetch.wait.max.ms": 100}
        )
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name="demo-results", daemon=True)

    def start(self) -> None:
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in TOPICS])
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._is_stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                topic, value = message.topic(), message.value()
                if message.error() is None and topic is not None and value is not None:
                    self.results.take_record(topic, value)
