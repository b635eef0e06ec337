"""Partitions that move to other brokers (KIP-455): asked for, begun and cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_topics import describe_cluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_TIMEOUT_MS = 30_000


class Reassignment(NamedTuple):
    """Of one partition, while it goes on."""

    replicas: tuple[int, ...]
    """Those that stay, those that are added and those that are removed."""
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

    @property
    def origin(self) -> tuple[int, ...]:
        """Where it was. In which order is not told any more."""
        return tuple(each for each in self.replicas if each not in self.adding_replicas)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.removing_replicas)


def list_reassignments(cluster: BlockingCluster) -> dict[TopicPartition, Reassignment]:
    """All that go on."""
    request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None)

    def attempt() -> dict[TopicPartition, Reassignment]:
        node = describe_cluster(cluster).controller
        response = cluster.ask(request, ListPartitionReassignmentsResponse, node=node)
        _check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, part.partition_index): Reassignment(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in response.topics
            for part in topic.partitions
        }

    return cluster.retrying("to ask for reassignments", attempt)


def alter_reassignments(
    cluster: BlockingCluster, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError]:
    """Begins to move partitions to these replicas; None cancels. Returns what was refused."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for each, replicas in wanted.items():
        topics.setdefault(each.topic, []).append(
            ReassignablePartition(
                partition_index=each.partition,
                replicas=None if replicas is None else list(replicas),
            )
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=_TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )

    def attempt() -> dict[TopicPartition, KafkaError]:
        node = describe_cluster(cluster).controller
        response = cluster.ask(request, AlterPartitionReassignmentsResponse, node=node)
        _check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, part.partition_index): KafkaError(
                ErrorCode(part.error_code), part.error_message or ErrorCode(part.error_code).name
            )
            for topic in response.responses
            for part in topic.partitions
            if part.error_code
        }

    return cluster.retrying("to reassign partitions", attempt) if wanted else {}


def _check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(ErrorCode(code), message or ErrorCode(code).name)
