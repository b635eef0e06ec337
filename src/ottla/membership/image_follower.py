"""Makes this broker follow the picture of the cluster: settings are taken, coordinators hear of
topics that came, changed or went. What to lead and what to delete the controller tells by requests
(`state_changes.py`).

One change after another, in the order in which the picture showed them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.runtime import Runtime
from ottla.kernel.errors import KafkaError
from ottla.membership.live_config import LiveConfig
from ottla.metadata.image import (
    BrokerConfigChanged,
    Change,
    ClusterImage,
    TopicChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from ottla.replication.replica_manager import ReplicaManager

log = logging.getLogger(__name__)

MADE_TIMEOUT_S = 5.0
"""A broker that has not heard of a new topic by then is cut off from the controller."""


class ImageFollower:
    """Owned by the broker. What it has not applied when the broker dies is found in the store at
    the next start."""

    def __init__(
        self,
        image: ClusterImage,
        config: LiveConfig,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        coordinators: Mapping[str, Runtime[Any]],
        *,
        on_broker_config: Callable[[], None],
    ) -> None:
        """`on_broker_config` is called when settings of this broker may be others than before."""
        self._image = image
        self._config = config
        self._replicas = replicas
        self._groups = groups
        self._coordinators = coordinators
        """By the topic that each keeps its state in."""
        self._on_broker_config = on_broker_config
        self._queue: asyncio.Queue[tuple[Change, asyncio.Event]] = asyncio.Queue()
        self._unapplied: dict[str, asyncio.Event] = {}
        """By topic, the last of its changes that are in the queue."""
        self._awaited: dict[str, asyncio.Future[None]] = {}
        """By topic: the picture shows it now."""
        self._consumer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From the picture as it is now."""
        self._replicas.set_broker_config(self._config.current)
        for topic in self._image.topics.values():
            self._count_partitions(topic)
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

    async def topic_made(self, name: str) -> None:
        """Waits until this broker goes by a topic that the controller has just made, or has found
        to be there already; not for ever."""
        if name not in self._image.topics:
            shown = self._awaited.setdefault(name, asyncio.get_running_loop().create_future())
            # Not asyncio.timeout: requests begin without a task (`kernel/eager.py`).
            await asyncio.wait([shown], timeout=MADE_TIMEOUT_S)
        await self.topic_applied(name)

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
        if isinstance(change, TopicCreated) and (
            shown := self._awaited.pop(change.topic.name, None)
        ):
            shown.set_result(None)

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
            case TopicCreated(topic=topic) | TopicChanged(topic=topic):
                self._count_partitions(topic)
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
                self._on_broker_config()

    def _count_partitions(self, topic: TopicImage) -> None:
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None:
            coordinator.partition_count = len(topic.partitions)

    def _set_configs(self, topics: Iterable[str]) -> None:
        self._replicas.set_configs(
            {name: self._config.of_topic(self._image, name) for name in topics}
        )

    async def _delete(self, topic: TopicImage) -> None:
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None:
            coordinator.partition_count = 0
        else:
            await self._groups.topics_deleted([topic.name])


def _topic_of(change: Change) -> str | None:
    """That it changes."""
    match change:
        case TopicCreated(topic) | TopicChanged(topic) | TopicDeleted(topic):
            return topic.name
    return None
