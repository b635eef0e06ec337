from __future__ import annotations

import asyncio
import random

import pytest

from ottla.controller.controller_context import (
    CommittedState,
    LiveBroker,
    Replica,
    Topic,
    load_context,
    read_brokers,
)
from ottla.coordination import znodes
from ottla.coordination.znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.membership.registration import prepare_store, register_broker
from ottla.testing.store import MemoryEnsemble, MemoryStore
from tests.unit.controller.contexts import P0, SLICES, TOPIC_ID, live_broker, make_context, resolve


async def open_store() -> MemoryStore:
    store = MemoryStore(MemoryEnsemble())
    await store.open()
    await prepare_store(store, random.Random(0))
    await store.create(znodes.ACCEPTED_BROKERS)
    return store


async def store_topic(store: MemoryStore, replicas: list[ReplicaAssignment]) -> None:
    assignment = TopicAssignment(TopicId(TOPIC_ID), dict(enumerate(replicas)))
    await store.create(znodes.topic_path("t"), znodes.encode_topic(assignment))
    await store.create(znodes.partitions_path("t"))


def test_what_the_store_has_is_loaded() -> None:
    async def scenario() -> None:
        store = await open_store()
        info = live_broker(1, rack="a").info
        registered = await register_broker(store, BrokerId(1), info)
        await store.create(znodes.accepted_broker_path(1), b"77")
        replicas = [ReplicaAssignment((1, 2), (2,), ()), ReplicaAssignment((1,))]
        await store_topic(store, replicas)
        state = LeaderAndIsr(1, 3, (1,), 4, eligible_leader_replicas=(2,))
        await store.create(znodes.partition_path("t", 0))
        path = znodes.partition_state_path("t", 0)
        await store.create(path)
        await store.set(path, znodes.encode_partition_state(state))
        await store.create(znodes.delete_topic_path("t"))
        for path in (
            znodes.topic_config_path("t"),
            znodes.broker_config_path(None),
            znodes.broker_config_path(1),
            znodes.group_config_path("a/b"),
            znodes.client_metrics_config_path("s"),
        ):
            await store.create(path, znodes.encode_config({"a": path}))

        context = await load_context(store, 8, resolve, SLICES)
        assert context.live_brokers == {1: LiveBroker(BrokerId(1), registered.epoch, info)}
        assert context.accepted_epochs == {1: 77}
        topic = Topic("t", TopicId(TOPIC_ID), tuple(replicas), 0)
        assert context.topics == {"t": topic}
        assert context.topics_by_id == {TOPIC_ID: topic}
        assert context.committed == {P0: CommittedState(state, 1)}
        assert context.topics_to_delete == {"t"}
        assert context.half_made == {znodes.partitions_path("t")}
        assert context.topic_configs == {"t": {"a": "/config/topics/t"}}
        assert set(context.broker_configs) == {None, 1}
        assert set(context.group_configs) == {"a/b"}
        assert set(context.client_metrics_configs) == {"s"}

    asyncio.run(scenario())


def test_partitions_that_are_not_consecutive_are_refused_with_the_path() -> None:
    async def scenario() -> None:
        store = await open_store()
        assignment = TopicAssignment(None, {1: ReplicaAssignment((1,))})
        await store.create(znodes.topic_path("t"), znodes.encode_topic(assignment))
        with pytest.raises(znodes.BadZnode, match="/brokers/topics/t lists partitions"):
            await load_context(store, 1, resolve, SLICES)

    asyncio.run(scenario())


def test_a_broker_that_registers_again_has_a_greater_epoch() -> None:
    async def scenario() -> None:
        store = await open_store()
        await register_broker(store, BrokerId(2), live_broker(2).info)
        first = (await read_brokers(store))[BrokerId(2)]
        await store.delete(znodes.broker_path(2))
        await register_broker(store, BrokerId(2), live_broker(2).info)
        assert (await read_brokers(store))[BrokerId(2)].epoch > first.epoch

    asyncio.run(scenario())


def test_a_replica_is_online_with_its_broker_and_its_disk() -> None:
    context = make_context(live=(1, 2))
    assert context.is_online(1, P0)
    assert not context.is_online(3, P0)
    context.offline_dirs[BrokerId(1)] = {P0}
    assert not context.is_online(1, P0)
    assert context.is_online(1, TopicPartition("t", 1))


def test_what_lies_on_a_broker() -> None:
    context = make_context(partition_count=2)
    assert list(context.replicas_on({BrokerId(2)})) == [
        Replica(P0, BrokerId(2)),
        Replica(TopicPartition("t", 1), BrokerId(2)),
    ]
    assert context.assignment(P0) == ReplicaAssignment((1, 2, 3))
    assert context.assignment(TopicPartition("t", 2)) is None
    assert context.assignment(TopicPartition("u", 0)) is None


def test_of_a_topic_that_is_forgotten_nothing_is_left() -> None:
    context = make_context()
    context.topics_to_delete.add("t")
    context.forget_topic("t")
    for left in (
        context.topics,
        context.topics_by_id,
        context.committed,
        context.topics_to_delete,
        context.topic_configs,
        context.partition_states,
        context.replica_states,
    ):
        assert not left
