"""What a controller does in the store, on every store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.controller.cluster_controller import ClusterController
from ottla.controller.controller_context import LiveBroker
from ottla.controller.topic_planning import NewTopic
from ottla.controller.unclean_recovery import LogEnd
from ottla.coordination import znodes
from ottla.coordination.store import Store
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.kernel.clock import SystemClock
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.membership.registration import prepare_store, register_broker
from ottla.wire.schema import Request
from tests.contract.coordination.backends import Backend


class Agreeable:
    """A broker that says yes to whatever it is told."""

    async def call(self, request: Request, response_class: type[Any], version: int) -> Any:
        return response_class()

    def close(self) -> None:
        pass


async def connect(broker: LiveBroker) -> Agreeable:
    return Agreeable()


async def ask_log_ends(
    broker_id: BrokerId, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, LogEnd]:
    return {}


async def shows_config(path: str) -> None:
    assert path.startswith("/config/changes/config_change_")


def info_of(broker_id: int) -> BrokerInfo:
    return BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9000 + broker_id),))


async def start(store: Store, broker_id: int) -> ClusterController:
    await prepare_store(store, random.Random(0))
    await register_broker(store, BrokerId(broker_id), info_of(broker_id))
    config = BrokerConfig({})
    controller = ClusterController(
        store,
        BrokerId(broker_id),
        config=lambda: config,
        clock=SystemClock(),
        rng=random.Random(broker_id),
        connect=connect,
        ask_log_ends=ask_log_ends,
        shows_config=shows_config,
        check_topic_config=lambda config: None,
    )
    await controller.start()
    return controller


async def leader_of(store: Store, topic: str) -> int:
    path = znodes.partition_state_path(topic, 0)
    return znodes.decode_partition_state(path, (await store.get(path)).data).leader


def test_topics_come_and_go_and_another_controller_goes_on(backend: Backend) -> None:
    async def scenario() -> None:
        stores = [await backend.open_store() for _ in range(3)]
        first, second = [await start(stores[each], each + 1) for each in range(2)]
        watcher = stores[2]
        assert (first.is_active, second.is_active) == (True, False)
        while (await watcher.children(znodes.ACCEPTED_BROKERS)) != ["1", "2"]:
            await asyncio.sleep(0.01)
        topic = NewTopic("t", assignments=[(0, (1, 2))])
        await first.topics.create(topic)
        await first.topics.create_partitions("t", 2)
        await first.configs.change_topic("t", lambda old: {**old, "retention.ms": "5"})
        assert await leader_of(watcher, "t") == 1
        await first.topics.create(NewTopic("u", 1, 2))
        await first.topics.delete("u")
        assert await watcher.children(znodes.TOPICS) == ["t"]
        assert await watcher.children(znodes.DELETE_TOPICS) == []

        await first.close()
        await stores[0].close()
        while not second.is_active or await leader_of(watcher, "t") != 2:
            await asyncio.sleep(0.01)
        assert second.controller_epoch == 2
        await second.close()

    backend.run(scenario)


def test_a_controller_whose_session_expires_leaves_its_office(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        controller = await start(store, 1)
        await backend.expire(store)
        assert not controller.is_active
        await store.open()
        await register_broker(store, BrokerId(1), info_of(1))
        while not controller.is_active:
            await asyncio.sleep(0.01)
        assert controller.controller_epoch == 2
        await controller.topics.create(NewTopic("t", 1, 1))
        await controller.close()

    backend.run(scenario)
