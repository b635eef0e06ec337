"""A cluster under measurement: several brokers of one kind."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping

from bench.broker import Broker


def internal_topic_settings(broker_count: int) -> dict[str, str]:
    """As durable as Kafka's defaults where there are three brokers."""
    replicas = min(3, broker_count)
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": "2" if replicas == 3 else "1",
    }


REPLICATED = {"min.insync.replicas": "2"}
"""Of topics with three replicas."""


class Cluster:
    """Owned by a benchmark, which calls `discard` at its end however it ends. CPU and memory are
    those of all its brokers together."""

    def __init__(self, name: str, nodes: Mapping[int, Broker]) -> None:
        self.name = name
        self.nodes = nodes
        """By their ids."""

    @property
    def address(self) -> str:
        """Of all that run, as clients take it."""
        return ",".join(node.address for node in self.running())

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(node.pid for node in self.running())

    @property
    def pids_text(self) -> str:
        """As our clients take it."""
        return ",".join(map(str, self.pids))

    @property
    def is_running(self) -> bool:
        return bool(self.running())

    def running(self) -> list[Broker]:
        return [node for node in self.nodes.values() if node.is_running]

    def without_controller(self) -> list[int]:
        """Brokers of which one may be lost while the controller stays."""
        controller_id = self.running()[0].controller_id()
        return [number for number in self.nodes if number != controller_id]

    def start(self) -> None:
        for node in self.nodes.values():
            node.make_folder_ready()
        for node in self.nodes.values():
            node.spawn()
        self.wait_for_brokers(self.nodes)

    def wait_for_brokers(self, expected: Iterable[int]) -> None:
        """Until each that runs knows of these and of no other."""
        ids = set(expected)
        for node in self.running():
            node.wait_until(
                lambda node=node: set(node.metadata().brokers) == ids,  # type: ignore[misc]
                f"know of the brokers {ids}",
            )

    def discard(self) -> None:
        """Nobody needs its data any more."""
        for node in self.nodes.values():
            node.kill()
            shutil.rmtree(node.folder, ignore_errors=True)

    def wait_for_topic(self, topic: str, partition_count: int) -> None:
        for node in self.running():
            node.wait_for_topic(topic, partition_count)

    def wait_until_in_sync(self, topic: str) -> None:
        """Until a broker says that all replicas are, which leaders tell the controller."""
        node = self.running()[0]

        def is_in_sync() -> bool:
            partitions = node.metadata(topic).partitions.values()
            return bool(partitions) and all(
                len(each.in_sync) == len(each.replicas) for each in partitions
            )

        node.wait_until(is_in_sync, f"say that all replicas of {topic} are in sync")
