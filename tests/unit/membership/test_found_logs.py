from __future__ import annotations

import random

import pytest

from ottla.coordination import znodes
from ottla.coordination.znodes import (
    BrokerInfo,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
)
from ottla.kernel.ids import BrokerId, TopicId
from ottla.membership.registration import prepare_store, register_broker
from ottla.storage.errors import BrokerStartRefused
from ottla.testing.store import MemoryEnsemble, MemoryStore
from tests.support.simulated_broker import SimulatedBroker, with_broker

OTHER_INFO = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9092),))


async def other_store(broker: SimulatedBroker) -> MemoryStore:
    store = MemoryStore(broker.machine.ensemble)
    await store.open()
    return store


def folders(broker: SimulatedBroker) -> set[str]:
    """Without what is unique in the names of strays."""
    names = broker.machine.disk.list_folder("/data")
    return {
        f"{name.partition('.')[0]}{'-stray' if name.endswith('-stray') else ''}"
        for name in names
        if broker.machine.disk.is_folder(f"/data/{name}")
    }


async def assign(broker: SimulatedBroker, topic_id: TopicId, *replicas: tuple[int, ...]) -> None:
    """While the broker is down: replicas of the partitions of `t`."""
    store = await other_store(broker)
    assignments = {number: ReplicaAssignment(each) for number, each in enumerate(replicas)}
    data = znodes.encode_topic(TopicAssignment(topic_id, assignments))
    await store.set(znodes.topic_path("t"), data)
    for number, each in enumerate(replicas):
        state = znodes.encode_partition_state(LeaderAndIsr(each[0], 1, each, 1))
        await store.set(znodes.partition_state_path("t", number), state)
    await store.close()


def test_a_log_whose_replica_was_moved_away_is_set_aside() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 3)
        await broker.machine.stop()
        await assign(broker, topic_id, (1,), (2,), (2, 1))
        await broker.start()
        assert folders(broker) == {"t-0", "t-1-stray", "t-2"}

    with_broker(test)


@pytest.mark.parametrize("has_other_id", [False, True])
def test_a_log_of_no_topic_is_set_aside(has_other_id: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 2)
        await broker.machine.stop()
        if has_other_id:
            await assign(broker, TopicId(b"x" * 16), (1,), (1,))
        else:
            await assign(broker, topic_id, (1,))
        await broker.start()
        expected = {"t-0", "t-1", "t-0-stray"} if has_other_id else {"t-0"}
        assert folders(broker) == expected | {"t-1-stray"}

    with_broker(test)


def test_logs_are_not_taken_over_beside_other_brokers() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.machine.stop()
        known, broker.machine.ensemble = broker.machine.ensemble, MemoryEnsemble()
        other = await other_store(broker)
        cluster_id = znodes.decode_cluster_id(known.get(znodes.CLUSTER_ID).data)
        await prepare_store(other, random.Random(0), cluster_id=cluster_id)
        await register_broker(other, BrokerId(2), OTHER_INFO)
        with pytest.raises(BrokerStartRefused, match=r"1 topics .* \(t, ...\).* run \(2\)"):
            await broker.start()
        await broker.machine.stop()
        assert folders(broker) == {"t-0"}
        await other.close()
        await broker.start()
        assert (await broker.produce("t", b"v")).base_offset == 0

    with_broker(test)


def test_an_empty_broker_joins_others_in_a_new_cluster() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.machine.stop()
        known, broker.machine.ensemble = broker.machine.ensemble, MemoryEnsemble()
        other = await other_store(broker)
        cluster_id = znodes.decode_cluster_id(known.get(znodes.CLUSTER_ID).data)
        await prepare_store(other, random.Random(0), cluster_id=cluster_id)
        await register_broker(other, BrokerId(2), OTHER_INFO)
        await broker.start()
        assert not broker.machine.ensemble.exists(znodes.LOG_ADOPTION)

    with_broker(test)
