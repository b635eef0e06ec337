"""Apache Kafka as its own scripts start it: one node, stock settings, stock heap."""

from __future__ import annotations

from pathlib import Path

from bench.broker import Broker
from tools.apache_kafka import ApacheKafkaBroker


class ApacheKafka(Broker):
    """The measure of everything."""

    name = "Apache Kafka"

    def __init__(self, parent: Path) -> None:
        super().__init__(parent)
        self._kafka = ApacheKafkaBroker(self.folder)

    @property
    def address(self) -> str:
        return self._kafka.bootstrap

    @property
    def pid(self) -> int:
        return self._kafka.pid

    def make_folder_ready(self) -> None:
        self._kafka.format()

    def spawn(self) -> None:
        self._kafka.start(wait=False)

    def stop(self) -> None:
        self._kafka.stop()

    def log_folder(self, topic: str, partition: int) -> Path:
        return self._kafka.log_dir / f"{topic}-{partition}"

    def output(self) -> str:
        return self._kafka.log_text()
