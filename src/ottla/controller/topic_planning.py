"""What becomes of a request to create a topic, or to add partitions to one: Kafka's checks, then
the replicas of each partition. Nothing is written here."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ottla.controller import placement
from ottla.controller.topic_names import TopicNames, check_not_reserved, check_topic_name
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId, new_topic_id

USE_DEFAULT = -1

# Kafka's limit for one request, so that no number that a client sends fills the memory.
PARTITION_COUNT_MAX = 10_000

ConfigCheck = Callable[[Mapping[str, str]], None]
"""Raises `KafkaError(INVALID_CONFIG)` unless these may be the settings of a topic."""

Racks = Mapping[int, str | None]
"""Of every broker that is alive."""

Replicas = tuple[int, ...]


class NewTopic(NamedTuple):
    name: str
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    """(partition, brokers) pairs, to place by hand."""
    config: Mapping[str, str | None] = MappingProxyType({})
    id: TopicId | None = None
    """Of a topic whose logs are there already; a new one gets a new id."""
    leader_epochs: Mapping[int, int] = MappingProxyType({})
    """By partition, of such a topic: above those of the leaders that wrote its logs."""


class TopicDefaults(NamedTuple):
    partition_count: int = 1
    replication_factor: int = 1


class PlannedTopic(NamedTuple):
    name: str
    id: TopicId
    config: Mapping[str, str]
    replicas: Sequence[Replicas]
    """By partition."""


class TopicPlanner:
    """Owned by the controller."""

    def __init__(
        self,
        *,
        rng: random.Random,
        defaults: Callable[[], TopicDefaults],
        check_config: ConfigCheck,
    ) -> None:
        self._rng = rng
        self._defaults = defaults
        self._check_config = check_config

    def creation(self, topic: NewTopic, existing: TopicNames, racks: Racks) -> PlannedTopic:
        """Raises KafkaError."""
        check_not_reserved(topic.name)
        check_topic_name(topic.name)
        existing.check_free(topic.name)
        config = _without_nulls(topic.config)
        self._check_config(config)
        replicas = _manual(topic, racks) if topic.assignments else self._placed(topic, racks)
        return PlannedTopic(topic.name, topic.id or new_topic_id(self._rng), config, replicas)

    def _placed(self, topic: NewTopic, racks: Racks) -> list[Replicas]:
        if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.partition_count < USE_DEFAULT or topic.partition_count == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value. Use 1 or more, or "
                "-1 for the broker's default.",
            )
        defaults = self._defaults()
        count = topic.partition_count
        count = defaults.partition_count if count == USE_DEFAULT else count
        factor = topic.replication_factor
        factor = defaults.replication_factor if factor == USE_DEFAULT else factor
        check_partition_count(count)
        return placement.place(
            racks, partition_count=count, replication_factor=factor, rng=self._rng
        )


def plan_growth(
    topic: str,
    present: Sequence[Replicas],
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    racks: Racks,
) -> list[Replicas]:
    """The replicas of the partitions that are added, so that there are `count`. `assignments`
    places them by hand, in their order. Raises KafkaError."""
    if count == len(present):
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(present)} partition(s)."
        )
    if count < len(present):
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic} currently has {len(present)} partition(s); {count} would not "
            "be an increase.",
        )
    additional = count - len(present)
    if assignments is not None and len(assignments) != additional:
        raise bad_assignment(
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(assignments)} assignment(s) were specified."
        )
    check_partition_count(additional)
    factor = len(present[0])
    if assignments is None:
        return placement.place_more(
            racks,
            first_replica=present[0][0],
            partition_count=len(present),
            additional_count=additional,
            replication_factor=factor,
        )
    for brokers in assignments:
        check_assignment(brokers, factor, racks)
    return [tuple(brokers) for brokers in assignments]


def check_partition_count(count: int) -> None:
    """Of all topics of a request together. Raises KafkaError."""
    if count > PARTITION_COUNT_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request. "
            f"{count} are asked for, and at most {PARTITION_COUNT_MAX} can be added at once.",
        )


def unknown_topic(topic: str | TopicId) -> KafkaError:
    if isinstance(topic, str):
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"This server does not host this topic-partition. The topic '{topic}' does not exist.",
        )
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")


def bad_assignment(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _manual(topic: NewTopic, racks: Racks) -> list[Replicas]:
    for count, name in (
        (topic.replication_factor, "replication factor"),
        (topic.partition_count, "numPartitions"),
    ):
        if count != USE_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    check_partition_count(len(topic.assignments))
    by_partition: dict[int, Replicas] = {}
    factor: int | None = None
    for partition, brokers in topic.assignments:
        if partition in by_partition:
            raise bad_assignment(
                f"Found multiple manual partition assignments for partition {partition}"
            )
        check_assignment(brokers, factor, racks)
        factor = len(brokers)
        by_partition[partition] = tuple(brokers)
    if sorted(by_partition) != list(range(len(by_partition))):
        raise bad_assignment(
            "partitions should be a consecutive 0-based integer sequence, and are "
            f"{sorted(by_partition)}"
        )
    return [by_partition[partition] for partition in range(len(by_partition))]


def check_assignment(brokers: Sequence[int], factor: int | None, known: Container[int]) -> None:
    """Of one partition. Raises KafkaError."""
    if not brokers:
        raise bad_assignment("The manual partition assignment includes an empty replica list.")
    for broker in brokers:
        if broker not in known:
            raise bad_assignment(
                f"The manual partition assignment includes broker {broker}, but no such "
                "broker is registered."
            )
        if brokers.count(broker) > 1:
            raise bad_assignment(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
    if factor is not None and len(brokers) != factor:
        raise bad_assignment(
            "The manual partition assignment includes a partition with "
            f"{len(brokers)} replica(s), but this is not consistent with previous partitions, "
            f"which have {factor} replica(s)."
        )


def _without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    nulls = sorted(name for name, value in config.items() if value is None)
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {', '.join(nulls)}",
        )
    return {name: value for name, value in config.items() if value is not None}
