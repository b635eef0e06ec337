"""Makes this broker follow the picture of the cluster: logs opened and deleted, settings taken.

One change after another: a topic that is deleted and made again at once must have let go of its
folder before it gets a new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.coordination.image import (
    BrokerConfigChanged,
    Change,
    ClusterImage,
    TopicChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.runtime import Runtime
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.membership.live_config import LiveConfig
from ottla.replication.replica_manager import ReplicaManager
from ottla.storage.errors import StorageFailure

log = logging.getLogger(__name__)


class ImageFollower:
    """Owned by the broker. What it has not applied when the broker dies is found in the store at
    the next start."""

    def __init__(
        self,
        broker_id: BrokerId,
        image: ClusterImage,
        config: LiveConfig,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        coordinators: Mapping[str, Runtime[Any]],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._config = config
        self._replicas = replicas
        self._groups = groups
        self._coordinators = coordinators
        """By the topic that each keeps its state in."""
        self._queue: asyncio.Queue[tuple[Change, asyncio.Event]] = asyncio.Queue()
        self._unapplied: dict[str, asyncio.Event] = {}
        """By topic, the last of its changes that are in the queue."""
        self._consumer: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Leads what is there to lead, then follows."""
        self._replicas.set_broker_config(self._config.current)
        for topic in self._image.topics.values():
            numbers = [partition.partition for partition in topic.partitions]
            await self._lead(topic, numbers, is_new=False)
        self._image.on_change(self._enqueue)
        self._consumer = asyncio.get_running_loop().create_task(self._consume())

    async def applied(self) -> None:
        """Waits until every change of the picture so far is one of this broker's too."""
        await self._queue.join()

    async def topic_applied(self, name: str) -> None:
        """Waits until every change of this topic so far is one of this broker's too, or has
        failed."""
        if (applied := self._unapplied.get(name)) is not None:
            await applied.wait()

    async def close(self) -> None:
        if self._consumer is not None:
            self._consumer.cancel()
            await asyncio.wait([self._consumer])

    def _enqueue(self, change: Change) -> None:
        applied = asyncio.Event()
        name = _topic_of(change)
        if name is not None:
            self._unapplied[name] = applied
        self._queue.put_nowait((change, applied))

    async def _consume(self) -> None:
        while True:
            change, applied = await self._queue.get()
            try:
                await self._apply(change)
            except KafkaError as error:
                log.error("a change could not be applied: %s", error)
            except Exception:  # A bug of ours must not keep all later changes from their turn.
                log.exception("a change could not be applied: %s", change)
            finally:
                applied.set()
                name = _topic_of(change)
                if name is not None and self._unapplied[name] is applied:
                    del self._unapplied[name]
                self._queue.task_done()

    async def _apply(self, change: Change) -> None:
        match change:
            case TopicCreated(topic):
                numbers = [partition.partition for partition in topic.partitions]
                await self._lead(topic, numbers, is_new=True)
                self._groups.topics_changed([topic.name])
            case TopicChanged(topic, partitions):
                await self._lead(topic, partitions, is_new=True)
                self._groups.topics_changed([topic.name])
            case TopicDeleted(topic):
                await self._delete(topic)
                self._groups.topics_changed([topic.name])
            case TopicConfigChanged(name):
                self._set_configs([name])
            case BrokerConfigChanged():
                self._config.take_dynamic(self._image)
                self._replicas.set_broker_config(self._config.current)
                self._set_configs(self._image.topics)

    async def _lead(self, topic: TopicImage, partitions: Sequence[int], *, is_new: bool) -> None:
        config = self._config.of_topic(self._image, topic.name)
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None:
            coordinator.partition_count = len(topic.partitions)
        for number in partitions:
            partition = topic.partitions[number]
            if partition.leader != self._broker_id:
                continue
            # A log costs half a millisecond, and a request may ask for ten thousand.
            await asyncio.sleep(0)
            topic_partition = TopicPartition(topic.name, number)
            try:
                led = await self._replicas.become_leader(
                    topic_partition,
                    topic.id,
                    config,
                    leader_epoch=partition.leader_epoch,
                    replicas=tuple(BrokerId(replica) for replica in partition.replicas),
                    isr=tuple(BrokerId(replica) for replica in partition.isr),
                    partition_epoch=partition.version,
                    is_new=is_new,
                )
            except StorageFailure as error:
                log.error("%s-%d is offline: %s", topic.name, number, error)
                continue  # The others need not be.
            if coordinator is not None:
                coordinator.become_leader(led.leader)

    def _set_configs(self, topics: Iterable[str]) -> None:
        self._replicas.set_configs(
            {name: self._config.of_topic(self._image, name) for name in topics}
        )

    async def _delete(self, topic: TopicImage) -> None:
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None:
            for partition in topic.partitions:
                coordinator.resign(partition.partition)
        await self._replicas.delete(
            topic.id,
            *(TopicPartition(topic.name, each.partition) for each in topic.partitions),
        )
        if coordinator is not None:
            coordinator.partition_count = 0
        else:
            await self._groups.topics_deleted([topic.name])


def _topic_of(change: Change) -> str | None:
    """Whose logs it changes."""
    match change:
        case TopicCreated(topic) | TopicChanged(topic) | TopicDeleted(topic):
            return topic.name
    return None
