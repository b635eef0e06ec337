from __future__ import annotations

import asyncio
import random

import pytest

from ottla.controller import partition_state_machine
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import (
    ControllerContext,
    Topic,
    load_context,
    partitions_of,
)
from ottla.controller.partition_state_machine import PartitionState
from ottla.coordination import znodes
from ottla.coordination.store import Create, Delete, NodeExists, Set
from ottla.coordination.znodes import LeaderAndIsr, ReplicaAssignment
from ottla.kernel.clock import SystemClock
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.membership.registration import prepare_store
from ottla.testing.store import MemoryEnsemble, MemoryStore
from tests.unit.controller.contexts import (
    P0,
    SLICES,
    live_broker,
    make_context,
    make_plan,
    resolve,
    run,
)

TOPIC = Topic("u", TopicId(b"u" * 16), (ReplicaAssignment((1, 2)), ReplicaAssignment((2, 1))))


def test_nothing_changes_until_it_is_applied() -> None:
    context = make_context()
    before = context.committed[P0]
    plan = make_plan(context)
    state = before.state._replace(leader=2)
    plan.set_state(P0, state)
    plan.set_partition_state(P0, PartitionState.OFFLINE)
    plan.put_topic(TOPIC, {})
    plan.accept(BrokerId(4), 44)
    assert plan.state(P0) == state
    assert plan.assignment(TopicPartition("u", 1)) == ReplicaAssignment((2, 1))
    assert context.committed[P0] is before
    assert context.partition_states[P0] is PartitionState.ONLINE
    assert "u" not in context.topics
    assert BrokerId(4) not in context.accepted_epochs
    plan.apply()
    assert context.committed[P0] == (state, before.partition_epoch + 1)
    assert context.partition_states[P0] is PartitionState.OFFLINE
    assert context.topics["u"] == TOPIC
    assert context.accepted_epochs[BrokerId(4)] == 44


def test_every_write_names_the_version_that_it_replaces() -> None:
    context = make_context()
    plan = make_plan(context)
    state = LeaderAndIsr(2, 6, (2,), 7)
    plan.set_state(P0, state)
    plan.assign(P0, ReplicaAssignment((3,)))
    assert plan.assignment(P0).replicas == (3,)
    topic, stored = run(plan.operations())
    assert isinstance(topic, Set)
    assert (topic.path, topic.version) == ("/brokers/topics/t", 2)
    assert stored == Set(
        "/brokers/topics/t/partitions/0/state", znodes.encode_partition_state(state), 9
    )
    plan.apply()
    assert context.topics["t"].version == 3
    assert context.topics["t"].partitions == (ReplicaAssignment((3,)),)


async def open_store() -> MemoryStore:
    store = MemoryStore(MemoryEnsemble())
    await store.open()
    await prepare_store(store, random.Random(0))
    await store.create(znodes.ACCEPTED_BROKERS)
    return store


async def plan_topic(context: ControllerContext) -> ChangePlan:
    plan = ChangePlan(context, SystemClock())
    plan.put_topic(TOPIC, {"retention.ms": "5"})
    for each, _ in partitions_of(TOPIC):
        partition_state_machine.move(plan, each, PartitionState.NEW)
    await partition_state_machine.initialize(plan, [each for each, _ in partitions_of(TOPIC)])
    return plan


def test_a_new_topic_is_written_whole_and_the_context_is_what_a_new_one_would_load() -> None:
    async def scenario() -> None:
        store = await open_store()
        context = await load_context(store, 7, resolve, SLICES)
        context.live_brokers = {BrokerId(each): live_broker(each) for each in (1, 2)}
        plan = await plan_topic(context)
        await store.multi(await plan.operations())
        plan.apply()
        loaded = await load_context(store, 7, resolve, SLICES)
        assert loaded.topics == context.topics
        assert loaded.committed == context.committed
        assert loaded.topic_configs == context.topic_configs
        assert not loaded.half_made

    asyncio.run(scenario())


@pytest.mark.parametrize("count", range(8))
def test_a_creation_that_is_cut_short_can_be_finished_and_can_be_deleted(count: int) -> None:
    async def scenario() -> None:
        store = await open_store()
        context = await load_context(store, 7, resolve, SLICES)
        context.live_brokers = {BrokerId(each): live_broker(each) for each in (1, 2)}
        operations = await (await plan_topic(context)).operations()
        assert len(operations) == 7
        await store.multi(operations[:count])

        context = await load_context(store, 8, resolve, SLICES)
        context.live_brokers = {BrokerId(each): live_broker(each) for each in (1, 2)}
        if not context.topics:
            plan = await plan_topic(context)
        else:
            plan = ChangePlan(context, SystemClock())
            missing = [each for each, _ in context.partitions() if each not in context.committed]
            for each in missing:
                partition_state_machine.move(plan, each, PartitionState.NEW)
            await partition_state_machine.initialize(plan, missing)
            deletion = ChangePlan(context, SystemClock())
            deletion.mark_for_deletion("u")
            deletion.delete_topic(context.topics["u"])
            await check_it_can_be_written(store, deletion)
        await store.multi(await plan.operations())
        loaded = await load_context(store, 8, resolve, SLICES)
        assert sorted(loaded.committed) == [TopicPartition("u", 0), TopicPartition("u", 1)]

    asyncio.run(scenario())


async def check_it_can_be_written(store: MemoryStore, plan: ChangePlan) -> None:
    """And takes it back: the last operation is the one that cannot be done."""
    with pytest.raises(NodeExists) as caught:
        await store.multi([*await plan.operations(), Create("/brokers/topics")])
    assert caught.value.path == "/brokers/topics"


def test_a_deleted_topic_goes_with_all_its_nodes() -> None:
    async def scenario() -> None:
        store = await open_store()
        before = await store.tree("/")
        context = await load_context(store, 7, resolve, SLICES)
        context.live_brokers = {BrokerId(each): live_broker(each) for each in (1, 2)}
        plan = await plan_topic(context)
        await store.multi(await plan.operations())
        plan.apply()
        plan = ChangePlan(context, SystemClock())
        plan.mark_for_deletion("u")
        await store.multi(await plan.operations())
        plan.apply()
        assert context.topics_to_delete == {"u"}
        plan = ChangePlan(context, SystemClock())
        plan.delete_topic(context.topics["u"])
        await store.multi(await plan.operations())
        plan.apply()
        assert not context.topics
        assert await store.tree("/") == before

    asyncio.run(scenario())


def test_what_says_that_it_is_done_is_written_last() -> None:
    context = make_context()
    plan = make_plan(context)
    plan.accept(BrokerId(1), 500)
    plan.accept(BrokerId(9), 501)
    plan.write(Delete("/admin/reassign_partitions"))
    plan.set_state(P0, context.committed[P0].state)
    operations = run(plan.operations())
    assert [each.path for each in operations] == [
        "/brokers/topics/t/partitions/0/state",
        "/admin/reassign_partitions",
        "/ottla_accepted_brokers/1",
        "/ottla_accepted_brokers/9",
    ]
    assert operations[-2:] == [
        Set("/ottla_accepted_brokers/1", b"500"),
        Create("/ottla_accepted_brokers/9", b"501"),
    ]
