"""What a broker does in the store when it starts, on every store."""

from __future__ import annotations

import random

from ottla.controller.election import elect
from ottla.coordination import znodes
from ottla.coordination.image import load_image
from ottla.coordination.store import with_parents
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.kernel.ids import BrokerId
from ottla.membership.registration import prepare_store, register_broker
from tests.contract.coordination.backends import Backend

TOPIC = b'{"version":3,"topic_id":"YWFhYWFhYWFhYWFhYWFhYQ","partitions":{"0":[1]}}'
STATE = b'{"version":1,"leader":1,"leader_epoch":3,"controller_epoch":1,"isr":[1]}'


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
