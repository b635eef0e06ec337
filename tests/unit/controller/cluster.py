"""A controller on a store in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

from ottla.controller.controller import Controller, become_controller
from ottla.controller.topics import TopicDefaults
from ottla.coordination.image import Change, ClusterImage, load_image
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.kernel.clock import SystemClock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.registration import prepare_store, register_broker
from ottla.testing.store import MemoryEnsemble, MemoryStore


def check_topic_config(config: Mapping[str, str]) -> None:
    """One setting, enough to see that it is asked."""
    for name, value in config.items():
        if name != "retention.ms":
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown: {name}")
        if not value.isdigit():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"not a number: {value}")


class Cluster:
    """The brokers of `racks` are registered; broker 1 is controller."""

    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.store = MemoryStore(self.ensemble)
        self.image: ClusterImage
        self.controller: Controller
        self.changes: list[Change] = []

    async def start(self, racks: Mapping[int, str | None], defaults: TopicDefaults) -> None:
        rng = random.Random(0)
        await self.store.open()
        await prepare_store(self.store, rng)
        for broker_id, rack in racks.items():
            info = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),), rack)
            await register_broker(self.store, BrokerId(broker_id), info)
        self.image = await load_image(self.store)
        self.controller = await become_controller(
            self.store,
            self.image,
            BrokerId(1),
            clock=SystemClock(),
            rng=rng,
            defaults=defaults,
            check_topic_config=check_topic_config,
        )
        self.image.on_change(self.changes.append)

    async def check(self) -> None:
        """What the store says is what the picture shows."""
        loaded = await load_image(self.store)
        for name in (
            "cluster_id",
            "controller_id",
            "brokers",
            "topics",
            "topics_by_id",
            "topic_configs",
            "broker_configs",
        ):
            assert getattr(self.image, name) == getattr(loaded, name), name


def run(
    scenario: Callable[[Cluster], Awaitable[None]],
    racks: Mapping[int, str | None] | None = None,
    defaults: TopicDefaults | None = None,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            cluster = Cluster()
            await cluster.start(
                racks or {1: None},
                defaults or TopicDefaults(partition_count=2, replication_factor=1),
            )
            await scenario(cluster)
            await cluster.check()
            await cluster.controller.close()

    asyncio.run(main())
