from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.controller.controller import Controller, become_controller
from ottla.controller.topics import NewTopic, TopicDefaults
from ottla.coordination.image import ClusterImage, load_image
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.registration import prepare_store
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.store import MemoryEnsemble, MemoryStore
from tests.unit.controller.cluster import check_topic_config


class Broker:
    """As far as it becomes controller."""

    def __init__(self, loop: VirtualLoop, ensemble: MemoryEnsemble, broker_id: int) -> None:
        self.store = MemoryStore(ensemble)
        self.image = ClusterImage()
        self._id = BrokerId(broker_id)
        self._clock = VirtualClock(loop)

    async def become_controller(self) -> Controller:
        if not self.store.session_id:
            await self.store.open()
        await prepare_store(self.store, random.Random(0))
        self.image = await load_image(self.store)
        return await become_controller(
            self.store,
            self.image,
            self._id,
            clock=self._clock,
            rng=random.Random(0),
            defaults=TopicDefaults(partition_count=1, replication_factor=1),
            check_topic_config=check_topic_config,
        )


def run(scenario: Callable[[MemoryEnsemble, Broker, Broker], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        await scenario(ensemble, Broker(loop, ensemble, 1), Broker(loop, ensemble, 2))

    run_virtual(main)


def test_the_first_is_controller_and_shows_it() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: Broker, two: Broker) -> None:
        controller = await one.become_controller()
        assert (controller.controller_epoch, one.image.controller_id) == (1, 1)
        await controller.close()

    run(scenario)


def test_a_second_is_told_why_it_cannot_be() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: Broker, two: Broker) -> None:
        controller = await one.become_controller()
        with pytest.raises(KafkaError, match="Another broker uses this coordination store") as no:
            await two.become_controller()
        assert no.value.code is ErrorCode.NOT_CONTROLLER
        await controller.close()

    run(scenario)


def test_a_successor_has_the_next_epoch_and_its_predecessor_writes_no_more() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: Broker, two: Broker) -> None:
        former = await one.become_controller()
        ensemble.expire(one.store)
        await one.store.open()
        controller = await two.become_controller()
        assert (controller.controller_epoch, two.image.controller_id) == (2, 2)
        with pytest.raises(KafkaError) as caught:
            await former.configs.change_broker(None, lambda old: {"a": "b"})
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        for each in (former, controller):
            await each.close()

    run(scenario)


def test_what_waits_when_it_closes_is_cancelled() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: Broker, two: Broker) -> None:
        controller = await one.become_controller()
        waiting = [
            asyncio.create_task(controller.topics.create(NewTopic(name))) for name in ("a", "b")
        ]
        await asyncio.sleep(0)
        await controller.close()
        for task in waiting:
            with pytest.raises(asyncio.CancelledError):
                await task

    run(scenario)
