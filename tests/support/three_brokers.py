"""A cluster of three brokers, of Ottla or of Apache Kafka, for tools that look after one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster.broker_cluster import BrokerCluster
from tools.apache_kafka import ApacheKafkaBroker

_PATIENCE_S = 60.0
_SETTINGS = {
    # Leaders stay where tests put them.
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "1",
    # All of them stop at once, and nobody is left to lead.
    "controlled.shutdown.enable": "false",
}
_KAFKA_SETTINGS = {
    **_SETTINGS,
    # One that was killed is missed soon.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}

IsSo = Callable[[Any], bool]
"""Of a partition, as metadata has it."""


class ThreeBrokers:
    """Brokers 1, 2 and 3. Whoever made it starts and stops it; tests may kill 3, which is not the
    controller of Apache Kafka, and start it again."""

    def __init__(self, folder: Path, *, is_ottla: bool) -> None:
        self.is_ottla = is_ottla
        self._ottla = BrokerCluster(folder) if is_ottla else None
        self._kafka: dict[int, ApacheKafkaBroker] = {}
        if self._ottla is not None:
            self._ottla.settings.update(_SETTINGS)
            for broker in self._ottla.brokers.values():
                broker.settings.update(_SETTINGS)
        else:
            for broker_id in (1, 2, 3):
                self._kafka[broker_id] = self._apache_kafka(folder, broker_id)

    def _apache_kafka(self, folder: Path, broker_id: int) -> ApacheKafkaBroker:
        return ApacheKafkaBroker(
            folder / str(broker_id),
            settings={**_KAFKA_SETTINGS, "node.id": str(broker_id)},
            heap_mb=300,
            joins=self._kafka.get(1),
        )

    def start(self) -> None:
        if self._ottla is not None:
            self._ottla.start()
        for broker in self._kafka.values():
            broker.start()

    def stop(self) -> None:
        if self._ottla is not None:
            self._ottla.stop()
        for broker in reversed(self._kafka.values()):
            broker.stop()

    def kill_3(self) -> None:
        if self._ottla is not None:
            self._ottla.kill(3)
        else:
            self._kafka[3].kill()

    def start_3(self) -> None:
        if self._ottla is not None:
            self._ottla.start(3)
        else:
            self._kafka[3].start()

    @property
    def bootstrap(self) -> str:
        """Of 1 and 2, which stay."""
        brokers = self._kafka if self._ottla is None else self._ottla.brokers
        return f"{brokers[1].bootstrap},{brokers[2].bootstrap}"

    # -- topics -------------------------------------------------------------------------------

    def create(
        self, topic: str, *replicas: list[int], config: Mapping[str, str] | None = None
    ) -> None:
        """With these replicas of each partition, of which the first leads."""
        new = NewTopic(
            topic, len(replicas), replica_assignment=[*replicas], config=dict(config or {})
        )
        admin = self._admin()
        for made in admin.create_topics([new]).values():
            made.result(_PATIENCE_S)
        self.wait_until(topic, lambda one: one.leader == one.replicas[0])

    def produce(self, topic: str, count: int, size_bytes: int = 1000) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(count):
            producer.produce(topic, bytes(size_bytes), key=b"%d" % number)
        assert producer.flush(_PATIENCE_S) == 0

    def wait_until(self, topic: str, is_so: IsSo) -> None:
        """Of every partition, at each of the brokers that stay."""
        for bootstrap in self.bootstrap.split(","):
            admin = AdminClient({"bootstrap.servers": bootstrap})
            deadline_s = time.monotonic() + _PATIENCE_S
            while not all(map(is_so, found := partitions_of(admin, topic))) or not found:
                assert time.monotonic() < deadline_s, f"{bootstrap} has {topic} as {found}"
                time.sleep(0.1)

    def partitions(self, topic: str) -> list[Any]:
        return partitions_of(self._admin(), topic)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})


def partitions_of(admin: AdminClient, topic: str) -> list[Any]:
    found = admin.list_topics(topic, timeout=_PATIENCE_S).topics[topic].partitions
    return [found[number] for number in sorted(found)]
