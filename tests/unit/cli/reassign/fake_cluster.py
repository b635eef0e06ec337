"""A cluster whose partitions move, as `ottla reassign` sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigResource, ConfigSource

from ottla.cli.log_dirs import Replica
from ottla.client.blocking_reassignments import Reassignment
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition

Partition = tuple[str, int]
THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class FakeCluster:
    """What it is asked to move is moving for `polls` questions, then there."""

    def __init__(self) -> None:
        self.racks: dict[int, str | None] = {1: None, 2: None, 3: None}
        self.replicas: dict[Partition, list[int]] = {
            ("clicks", 0): [1],
            ("clicks", 1): [1],
            ("clicks", 2): [1],
            ("views", 0): [1, 2],
        }
        self.moving: dict[Partition, Reassignment] = {}
        self.polls = 1
        self.asked: list[dict[TopicPartition, Sequence[int] | None]] = []
        self.refusal: KafkaError | None = None
        self.is_cancelled_meanwhile = False
        self.sizes: dict[tuple[int, str, int], int] | None = {}
        self.configs: dict[tuple[str, str], dict[str, str]] = {}
        self.altered: list[tuple[str, str, str, str | None]] = []

    # -- by the AdminClient ---------------------------------------------------------------

    def describe_cluster(self, **_: Any) -> Future[Any]:
        nodes = [SimpleNamespace(id=id, rack=rack) for id, rack in self.racks.items()]
        return done(SimpleNamespace(nodes=nodes))

    def list_topics(self, **_: Any) -> Any:
        topics: dict[str, Any] = {}
        for (name, number), replicas in self.replicas.items():
            moving = self.moving.get((name, number))
            part = SimpleNamespace(replicas=list(moving.replicas) if moving else replicas)
            topics.setdefault(name, SimpleNamespace(partitions={})).partitions[number] = part
        return SimpleNamespace(topics=topics)

    def describe_configs(
        self, resources: Sequence[ConfigResource], **_: Any
    ) -> dict[ConfigResource, Future[Any]]:
        return {resource: done(self._entries(resource)) for resource in resources}

    def _entries(self, resource: ConfigResource) -> dict[str, Any]:
        kind = resource.restype.name.lower()
        is_set = self.configs.get((kind, resource.name), {})
        source = (
            ConfigSource.DYNAMIC_TOPIC_CONFIG
            if kind == "topic"
            else ConfigSource.DYNAMIC_BROKER_CONFIG
        )
        return {
            key: SimpleNamespace(
                name=key,
                value=is_set.get(key, ""),
                source=source if key in is_set else ConfigSource.DEFAULT_CONFIG,
                is_read_only=False,
                is_sensitive=False,
            )
            for key in THROTTLES
        }

    def incremental_alter_configs(
        self, resources: Sequence[ConfigResource], **_: Any
    ) -> dict[ConfigResource, Future[Any]]:
        for resource in resources:
            kind = resource.restype.name.lower()
            found = self.configs.setdefault((kind, resource.name), {})
            for entry in resource.incremental_configs:
                operation = AlterConfigOpType(entry.incremental_operation)
                self.altered.append((operation.name, resource.name, entry.name, entry.value))
                if operation is AlterConfigOpType.DELETE:
                    found.pop(entry.name, None)
                else:
                    found[entry.name] = entry.value or ""
        return {resource: done(None) for resource in resources}

    # -- by connections of our own --------------------------------------------------------

    def connected(self, _: Any) -> AbstractContextManager[Any]:
        return nullcontext()

    def list_reassignments(self, _: Any = None) -> dict[TopicPartition, Reassignment]:
        if self.polls == 0:
            for key, one in self.moving.items():
                if not self.is_cancelled_meanwhile:
                    self.replicas[key] = list(one.target)
            self.moving.clear()
        self.polls -= 1 if self.moving else 0
        return {TopicPartition(*key): one for key, one in self.moving.items()}

    def alter_reassignments(
        self, _: Any, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError]:
        self.asked.append(dict(wanted))
        if self.refusal is not None:
            return dict.fromkeys(wanted, self.refusal)
        refused = {}
        for each, target in wanted.items():
            key = (each.topic, each.partition)
            if target is not None:
                self.move(key, target)
            elif self.moving.pop(key, None) is None:
                refused[each] = KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "it is over")
        return refused

    def move(self, key: Partition, target: Sequence[int]) -> None:
        origin = self.replicas[key]
        replicas = dict.fromkeys([*target, *origin])
        self.moving[key] = Reassignment(
            tuple(replicas),
            tuple(each for each in target if each not in origin),
            tuple(each for each in origin if each not in target),
        )

    def replicas_on_disk(self, *_: Any) -> list[Replica] | None:
        if self.sizes is None:
            return None
        return [Replica(*where, size_bytes) for where, size_bytes in self.sizes.items()]
