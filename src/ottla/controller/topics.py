"""Topics come, grow and go: checked by Kafka's rules, written in one step, then shown.

Each change is planned from the picture (pure), written by one `multi`, and applied to the
picture when the store has it. Everything runs in the controller's queue, so the picture cannot
change between plan and write, though the loop does other things meanwhile: a topic may have ten
thousand partitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ottla.controller import placement
from ottla.controller.election import ControllerWriter
from ottla.controller.events import EventQueue
from ottla.controller.topic_names import check_collision, check_not_reserved, check_topic_name
from ottla.coordination import znodes
from ottla.coordination.image import (
    ClusterImage,
    PartitionImage,
    TopicChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
    partition_image,
)
from ottla.coordination.store import Create, Delete, Operation, Set
from ottla.coordination.znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId, new_topic_id
from ottla.kernel.slices import Slices

USE_DEFAULT = -1

# Kafka's limit for one request, so that no number that a client sends fills the memory.
PARTITION_COUNT_MAX = 10_000

ConfigCheck = Callable[[Mapping[str, str]], None]
"""Raises `KafkaError(INVALID_CONFIG)` unless these may be the settings of a topic."""


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


class Topics:
    """Owned by the controller, for as long as it is one."""

    def __init__(
        self,
        writer: ControllerWriter,
        image: ClusterImage,
        events: EventQueue,
        *,
        clock: Clock,
        rng: random.Random,
        defaults: TopicDefaults,
        check_config: ConfigCheck,
    ) -> None:
        self._writer = writer
        self._image = image
        self._events = events
        self._clock = clock
        self._rng = rng
        self._defaults = defaults
        self._check_config = check_config

    async def create(self, topic: NewTopic, *, validate_only: bool = False) -> TopicCreated:
        """Returns what was made, or with `validate_only` what would be."""

        async def event() -> TopicCreated:
            await self._writer.refresh()
            slices = Slices(self._clock)
            planned = await self._plan_creation(topic, slices)
            if not validate_only:
                await self._writer.write(
                    await _creation(planned, self._image.topic_configs, slices)
                )
                self._image.apply(planned)
            return planned

        return await self._events.run(event)

    async def delete(self, topic: str | TopicId) -> TopicImage:
        """By name or by id. The logs are deleted by whoever listens to the picture; what a
        crash leaves of them belongs to no topic, and is found at the next start."""

        async def event() -> TopicImage:
            await self._writer.refresh()
            image = self._find(topic)
            slices = Slices(self._clock)
            await self._writer.write(await _deletion(image, self._image.topic_configs, slices))
            self._image.apply(TopicDeleted(image))
            return image

        return await self._events.run(event)

    async def create_partitions(
        self,
        name: str,
        partition_count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> TopicImage:
        """Raises the number of partitions to `partition_count`. `assignments` places the new
        ones by hand, in their order."""

        async def event() -> TopicImage:
            await self._writer.refresh()
            old = self._find(name)
            replicas = self._plan_growth(old, partition_count, assignments)
            first_new = len(old.partitions)
            slices = Slices(self._clock)
            new = tuple(
                [
                    self._partition(number, brokers)
                    async for number, brokers in slices.of(enumerate(replicas, first_new))
                ]
            )
            grown = TopicImage(name, old.id, old.partitions + new, old.version + 1)
            if not validate_only:
                await self._writer.write(await _growth(grown, new, slices))
                numbers = tuple(partition.partition for partition in new)
                self._image.apply(TopicChanged(grown, numbers, first_new))
            return grown

        return await self._events.run(event)

    # -- planning -----------------------------------------------------------------------

    def _find(self, topic: str | TopicId) -> TopicImage:
        if isinstance(topic, str):
            image = self._image.topics.get(topic)
            if image is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    "This server does not host this topic-partition. "
                    f"The topic '{topic}' does not exist.",
                )
            return image
        image = self._image.topics_by_id.get(topic)
        if image is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return image

    async def _plan_creation(self, topic: NewTopic, slices: Slices) -> TopicCreated:
        check_not_reserved(topic.name)
        check_topic_name(topic.name)
        if topic.name in self._image.topics:
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists."
            )
        check_collision(topic.name, self._image.topics)
        config = _without_nulls(topic.config)
        self._check_config(config)
        replicas = self._manual(topic) if topic.assignments else self._placed(topic)
        partitions = tuple(
            [
                self._partition(number, brokers, topic.leader_epochs.get(number, 0))
                async for number, brokers in slices.of(enumerate(replicas))
            ]
        )
        topic_id = topic.id or new_topic_id(self._rng)
        return TopicCreated(TopicImage(topic.name, topic_id, partitions), config)

    def _placed(self, topic: NewTopic) -> list[tuple[int, ...]]:
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
        count = topic.partition_count
        count = self._defaults.partition_count if count == USE_DEFAULT else count
        factor = topic.replication_factor
        factor = self._defaults.replication_factor if factor == USE_DEFAULT else factor
        check_partition_count(count)
        return placement.place(
            self._racks(), partition_count=count, replication_factor=factor, rng=self._rng
        )

    def _manual(self, topic: NewTopic) -> list[tuple[int, ...]]:
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
        by_partition: dict[int, tuple[int, ...]] = {}
        factor: int | None = None
        for partition, brokers in topic.assignments:
            if partition in by_partition:
                raise _bad_assignment(
                    f"Found multiple manual partition assignments for partition {partition}"
                )
            self._check_assignment(partition, brokers, factor)
            factor = len(brokers)
            by_partition[partition] = tuple(brokers)
        if sorted(by_partition) != list(range(len(by_partition))):
            raise _bad_assignment(
                "partitions should be a consecutive 0-based integer sequence, and are "
                f"{sorted(by_partition)}"
            )
        return [by_partition[partition] for partition in range(len(by_partition))]

    def _plan_growth(
        self, topic: TopicImage, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> list[tuple[int, ...]]:
        present = len(topic.partitions)
        if count == present:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s)."
            )
        if count < present:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {present} partition(s); {count} would not "
                "be an increase.",
            )
        additional = count - present
        if assignments is not None and len(assignments) != additional:
            raise _bad_assignment(
                f"Attempted to add {additional} additional partition(s), but only "
                f"{len(assignments)} assignment(s) were specified."
            )
        check_partition_count(additional)
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            return placement.place_more(
                self._racks(),
                first_replica=topic.partitions[0].replicas[0],
                partition_count=present,
                additional_count=additional,
                replication_factor=factor,
            )
        for index, brokers in enumerate(assignments):
            self._check_assignment(present + index, brokers, factor)
        return [tuple(brokers) for brokers in assignments]

    def _check_assignment(self, partition: int, brokers: Sequence[int], factor: int | None) -> None:
        if not brokers:
            raise _bad_assignment("The manual partition assignment includes an empty replica list.")
        for broker in brokers:
            if broker not in self._image.brokers:
                raise _bad_assignment(
                    f"The manual partition assignment includes broker {broker}, but no such "
                    "broker is registered."
                )
            if brokers.count(broker) > 1:
                raise _bad_assignment(
                    f"The manual partition assignment includes the broker {broker} more than once."
                )
        if factor is not None and len(brokers) != factor:
            raise _bad_assignment(
                "The manual partition assignment includes a partition with "
                f"{len(brokers)} replica(s), but this is not consistent with previous partitions, "
                f"which have {factor} replica(s)."
            )

    def _partition(
        self, partition: int, brokers: tuple[int, ...], leader_epoch: int = 0
    ) -> PartitionImage:
        """Every replica runs, so every one is in the first ISR, and the first one leads."""
        state = LeaderAndIsr(
            leader=brokers[0],
            leader_epoch=leader_epoch,
            isr=brokers,
            controller_epoch=self._writer.leadership.controller_epoch,
        )
        return partition_image(partition, ReplicaAssignment(brokers), state, version=0)

    def _racks(self) -> dict[int, str | None]:
        return {broker.id: broker.rack for broker in self._image.brokers.values()}


def check_partition_count(count: int) -> None:
    """Of all topics of a request together. Raises KafkaError."""
    if count > PARTITION_COUNT_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request. "
            f"{count} are asked for, and at most {PARTITION_COUNT_MAX} can be added at once.",
        )


def _bad_assignment(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    nulls = sorted(name for name, value in config.items() if value is None)
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {', '.join(nulls)}",
        )
    return {name: value for name, value in config.items() if value is not None}


# -- operations -------------------------------------------------------------------------


async def _assignment(topic: TopicImage, slices: Slices) -> bytes:
    return znodes.encode_topic(
        TopicAssignment(
            topic.id,
            {
                partition.partition: ReplicaAssignment(
                    partition.replicas, partition.adding_replicas, partition.removing_replicas
                )
                async for partition in slices.of(topic.partitions)
            },
        )
    )


async def _partition_creations(
    topic: str, partitions: Sequence[PartitionImage], slices: Slices
) -> list[Operation]:
    operations: list[Operation] = []
    async for partition in slices.of(partitions):
        number = partition.partition
        state = LeaderAndIsr(
            partition.leader, partition.leader_epoch, partition.isr, partition.controller_epoch
        )
        operations.append(Create(znodes.partition_path(topic, number)))
        operations.append(
            Create(znodes.partition_state_path(topic, number), znodes.encode_partition_state(state))
        )
    return operations


async def _creation(
    created: TopicCreated, existing_configs: Mapping[str, Mapping[str, str]], slices: Slices
) -> list[Operation]:
    name = created.topic.name
    config_path = znodes.topic_config_path(name)
    config = znodes.encode_config(created.config)
    return [
        # Kafka's tools may have left settings of a topic that never came to be.
        Set(config_path, config) if name in existing_configs else Create(config_path, config),
        Create(znodes.topic_path(name), await _assignment(created.topic, slices)),
        Create(znodes.partitions_path(name)),
        *await _partition_creations(name, created.topic.partitions, slices),
    ]


async def _growth(
    grown: TopicImage, new: Sequence[PartitionImage], slices: Slices
) -> list[Operation]:
    assignment = await _assignment(grown, slices)
    return [
        Set(znodes.topic_path(grown.name), assignment, grown.version - 1),
        *await _partition_creations(grown.name, new, slices),
    ]


async def _deletion(
    topic: TopicImage, existing_configs: Mapping[str, Mapping[str, str]], slices: Slices
) -> list[Operation]:
    operations: list[Operation] = []
    async for partition in slices.of(topic.partitions):
        operations.append(Delete(znodes.partition_state_path(topic.name, partition.partition)))
        operations.append(Delete(znodes.partition_path(topic.name, partition.partition)))
    operations.append(Delete(znodes.partitions_path(topic.name)))
    operations.append(Delete(znodes.topic_path(topic.name)))
    if topic.name in existing_configs:
        operations.append(Delete(znodes.topic_config_path(topic.name)))
    return operations
