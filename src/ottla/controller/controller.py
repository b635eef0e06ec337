"""The controller of a cluster, as far as one broker needs it."""

from __future__ import annotations

import random

from ottla.controller.configs import Configs
from ottla.controller.election import ControllerWriter, elect
from ottla.controller.events import EventQueue
from ottla.controller.topics import ConfigCheck, TopicDefaults, Topics
from ottla.coordination.image import ClusterImage, ControllerChanged
from ottla.coordination.store import Store
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId


class Controller:
    """Owned by the broker, from its election until it stops. A crash leaves every change either
    whole in the store or not made."""

    def __init__(self, topics: Topics, configs: Configs, events: EventQueue, epoch: int) -> None:
        self.topics = topics
        self.configs = configs
        self.controller_epoch = epoch
        self._events = events

    async def close(self) -> None:
        await self._events.close()


async def become_controller(
    store: Store,
    image: ClusterImage,
    broker_id: BrokerId,
    *,
    clock: Clock,
    rng: random.Random,
    defaults: TopicDefaults,
    check_topic_config: ConfigCheck,
) -> Controller:
    leadership = await elect(store, broker_id, clock.now_ms())
    if leadership is None:
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER,
            "Another broker uses this coordination store and is its controller; clusters of"
            " several brokers are not supported yet.",
        )
    image.apply(ControllerChanged(broker_id))
    writer = ControllerWriter(store, image, leadership)
    events = EventQueue()
    events.start()
    topics = Topics(
        writer,
        image,
        events,
        clock=clock,
        rng=rng,
        defaults=defaults,
        check_config=check_topic_config,
    )
    configs = Configs(writer, image, events)
    return Controller(topics, configs, events, leadership.controller_epoch)
