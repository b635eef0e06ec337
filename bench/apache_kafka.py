"""Apache Kafka as its own scripts start it: one node or several, stock settings,
stock heap."""

from __future__ import annotations

from pathlib import Path

from bench import protocol
from bench.broker import Broker
from bench.cluster import Cluster, internal_topic_settings
from bench.connection import Connection
from tools.apache_kafka import ApacheKafkaBroker, Membership, Quorum


class ApacheKafka(Broker):
    """The measure of everything."""

    name = "Apache Kafka"

    def __init__(
        self,
        parent: Path,
        member: Membership | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        super().__init__(parent)
        self._kafka = ApacheKafkaBroker(self.folder, member=member, settings=settings)

    def cluster(self, count: int) -> Cluster:
        quorum, settings = Quorum.of(count), internal_topic_settings(count)
        nodes = {
            number: ApacheKafka(self._parent, Membership(quorum, number), settings)
            for number in range(1, count + 1)
        }
        return Cluster(self.name, nodes)

    @property
    def address(self) -> str:
        return self._kafka.bootstrap

    @property
    def pid(self) -> int:
        return self._kafka.pid

    @property
    def is_running(self) -> bool:
        return self._kafka.is_running

    def controller_id(self) -> int:
        """Its metadata names any broker, to which clients send what is for the controller."""
        with Connection(self.address) as connection:
            return protocol.quorum_leader(connection.ask(protocol.describe_quorum_request()))

    def make_folder_ready(self) -> None:
        self._kafka.format()

    def spawn(self) -> None:
        self._kafka.start(wait=False)

    def stop(self) -> None:
        self._kafka.stop()

    def kill(self) -> None:
        self._kafka.kill()

    def log_folder(self, topic: str, partition: int) -> Path:
        return self._kafka.log_dir / f"{topic}-{partition}"

    def output(self) -> str:
        return self._kafka.log_text()
