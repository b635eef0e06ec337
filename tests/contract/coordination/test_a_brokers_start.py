"""What a broker does in the store when it starts, on every store."""

from __future__ import annotations

import asyncio
import random

from ottla.controller.election import elect
from ottla.coordination import znodes
from ottla.coordination.store import Create, Set, with_parents
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.kernel.ids import BrokerId
from ottla.membership.config_change_listener import ConfigChangeListener
from ottla.membership.registration import Registration, prepare_store, register_broker
from ottla.metadata.image import BrokerImage, Change, TopicConfigChanged
from ottla.metadata.loading import load_image
from tests.contract.coordination.backends import Backend

TOPIC = b'{"version":3,"topic_id":"YWFhYWFhYWFhYWFhYWFhYQ","partitions":{"0":[1]}}'
STATE = b'{"version":1,"leader":1,"leader_epoch":3,"controller_epoch":1,"isr":[1]}'


def test_brokers_that_start_together_agree_on_the_cluster_id(backend: Backend) -> None:
    async def scenario() -> None:
        stores = [await backend.open_store() for _ in range(3)]
        prepared = await asyncio.gather(
            *(prepare_store(store, random.Random(seed)) for seed, store in enumerate(stores))
        )
        assert len({each.cluster_id for each in prepared}) == 1
        for path in znodes.PERSISTENT_PATHS:
            assert await stores[0].exists(path)

    backend.run(scenario)


def test_a_broker_whose_session_expires_registers_anew(backend: Backend) -> None:
    async def scenario() -> None:
        store, other = await backend.open_store(), await backend.open_store()
        prepared = await prepare_store(store, random.Random(1))
        renewed: asyncio.Queue[BrokerImage] = asyncio.Queue()
        failed: list[str] = []
        info = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),))
        registration = Registration(
            store,
            BrokerId(1),
            info,
            prepared.cluster_id,
            on_renewed=renewed.put,
            on_failure=failed.append,
        )
        first = await registration.start()
        await backend.expire(store)
        second = await renewed.get()
        assert second.epoch > first.epoch
        assert list((await load_image(other)).brokers.values()) == [second]
        assert not failed
        await registration.close()

    backend.run(scenario)


def test_brokers_hear_of_changed_settings(backend: Backend) -> None:
    async def scenario() -> None:
        store, other = await backend.open_store(), await backend.open_store()
        await prepare_store(store, random.Random(1))
        listener = ConfigChangeListener(store)
        await listener.begin()
        image = await load_image(store)
        listener.follow(image)
        changes: asyncio.Queue[Change] = asyncio.Queue()
        image.on_change(changes.put_nowait)
        path = znodes.topic_config_path("t")
        for number, session in enumerate((other, store, other)):
            config = {"retention.ms": str(number)}
            data = znodes.encode_config(config)
            await session.multi(
                [
                    Set(path, data) if number else Create(path, data),
                    Create(
                        znodes.CONFIG_CHANGE_PREFIX,
                        znodes.encode_config_change(path),
                        sequential=True,
                    ),
                ]
            )
            assert await changes.get() == TopicConfigChanged("t", config)
        await listener.close()

    backend.run(scenario)


def test_two_brokers_find_each_other(backend: Backend) -> None:
    async def scenario() -> None:
        one, two = await backend.open_store(), await backend.open_store()
        prepared = await prepare_store(one, random.Random(1))
        assert (await prepare_store(two, random.Random(2))).cluster_id == prepared.cluster_id
        for broker_id, store in ((1, one), (2, two)):
            endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092 + broker_id),)
            await register_broker(store, BrokerId(broker_id), BrokerInfo(endpoints))
        leadership = await elect(one, BrokerId(1), 1)
        assert leadership is not None
        assert leadership.controller_epoch == 1
        assert await elect(two, BrokerId(2), 1) is None
        await one.create(znodes.topic_path("t"), TOPIC)
        for path in with_parents(znodes.partition_state_path("t", 0))[3:-1]:
            await one.create(path)
        await one.create(znodes.partition_state_path("t", 0), STATE)

        image = await load_image(two)
        assert image.cluster_id == prepared.cluster_id
        assert image.controller_id == 1
        assert list(image.brokers) == [1, 2]
        assert image.brokers[BrokerId(2)].epoch > image.brokers[BrokerId(1)].epoch
        assert image.topics["t"].partitions[0].leader == 1

        await one.close()
        assert list((await load_image(two)).brokers) == [2]
        successor = await elect(two, BrokerId(2), 2)
        assert successor is not None
        assert successor.controller_epoch == 2

    backend.run(scenario)
