from __future__ import annotations

from ottla.controller import broker_changes
from ottla.controller.partition_state_machine import PartitionState
from ottla.controller.replica_state_machine import ReplicaState
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.ids import BrokerId
from tests.unit.controller.brokers import SimulatedCluster, run
from tests.unit.controller.contexts import (
    EPOCH,
    P0,
    SLICES,
    live_broker,
    make_context,
    make_plan,
    on,
)
from tests.unit.controller.contexts import run as run_plan


def test_first_states_are_what_the_store_says() -> None:
    context = make_context(live=(2, 3))
    context.partition_states.clear()
    context.replica_states.clear()
    run_plan(broker_changes.set_first_states(context, SLICES))
    assert context.partition_states == {P0: PartitionState.OFFLINE}
    assert context.replica_states == {
        on(1)[0]: ReplicaState.OFFLINE,
        on(2)[0]: ReplicaState.ONLINE,
        on(3)[0]: ReplicaState.ONLINE,
    }


def test_of_a_failed_broker_others_take_over() -> None:
    context = make_context(live=(2, 3))
    plan = make_plan(context)
    run_plan(broker_changes.plan_failure(plan, {BrokerId(1)}))
    assert plan.state(P0) == LeaderAndIsr(2, 6, (2, 3), EPOCH)
    assert plan.replica_state(on(1)[0]) is ReplicaState.OFFLINE


def test_without_an_in_sync_replica_the_partition_waits_unless_unclean_elections_are_allowed() -> (
    None
):
    for unclean, leader in (("false", -1), ("true", 2)):
        config = {"unclean.leader.election.enable": unclean}
        context = make_context(live=(2, 3), isr=(1,), config=config)
        plan = make_plan(context)
        run_plan(broker_changes.plan_failure(plan, {BrokerId(1)}))
        state = plan.state(P0)
        assert state is not None
        assert state.leader == leader
        assert state.isr == ((1,) if leader == -1 else (2,))


def test_who_comes_back_leads_what_nobody_else_could() -> None:
    context = make_context(live=(1, 2, 3), isr=(1,), leader=-1)
    context.partition_states[P0] = PartitionState.OFFLINE
    plan = make_plan(context)
    run_plan(broker_changes.plan_start(plan, [live_broker(1, epoch=900)]))
    assert plan.state(P0) == LeaderAndIsr(1, 6, (1,), EPOCH)
    plan.apply()
    assert context.accepted_epochs[BrokerId(1)] == 900


def test_a_follower_that_fails_and_comes_back() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2, 3))
        await cluster.brokers[3].crash()
        await cluster.settle()
        assert await cluster.state("t") == LeaderAndIsr(1, 1, (1, 2), 1)
        assert cluster.brokers[2].metadata[P0].offline_replicas == [3]
        assert cluster.brokers[1].replicas[P0].isr == [1, 2]
        await cluster.brokers[3].restart()
        await cluster.settle()
        assert cluster.brokers[3].replicas[P0].leader == 1
        assert cluster.brokers[2].live_brokers == [1, 2, 3]

    run(scenario)


def test_a_leader_that_fails_is_replaced_and_does_not_lead_when_it_is_back() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        await cluster.brokers[2].crash()
        await cluster.settle()
        state = await cluster.state("t")
        assert (state.leader, state.isr) == (3, (3,))
        await cluster.brokers[2].restart()
        await cluster.settle()
        assert await cluster.state("t") == state
        assert cluster.brokers[2].replicas[P0].leader == 3

    run(scenario)


def test_a_broker_that_was_back_before_anybody_looked_has_failed_all_the_same() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        before = await cluster.state("t")
        broker = cluster.brokers[2]
        await broker.crash()
        await broker.restart()
        await cluster.settle()
        state = await cluster.state("t")
        assert state.leader_epoch > before.leader_epoch
        assert state.leader == 3

    run(scenario)


def test_the_leader_epoch_grows_when_a_broker_alone_restarts_and_not_when_nothing_did() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1,))
        assert (await cluster.state("t")).leader_epoch == 0
        await cluster.brokers[1].crash()
        await cluster.brokers[1].restart()
        await cluster.settle()
        after = await cluster.state("t")
        assert after.leader == 1
        assert after.isr == (1,)
        assert after.leader_epoch > 0
        assert cluster.brokers[1].replicas[P0].leader_epoch == after.leader_epoch
        # Another controller epoch alone changes nothing.
        await cluster.observer.delete("/controller")
        await cluster.settle()
        assert cluster.active.controller.controller_epoch == 3
        assert await cluster.state("t") == after

    run(scenario, ids=[1])


def test_all_fail_and_the_last_in_sync_leads_again() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        for each in (1, 2, 3):
            await cluster.brokers[each].crash()
        await cluster.brokers[3].restart()
        await cluster.settle()
        state = await cluster.state("t")
        assert (state.leader, set(state.isr)) == (-1, {1, 2})
        await cluster.brokers[2].restart()
        await cluster.settle()
        assert (await cluster.state("t")).leader == 2
        await cluster.brokers[1].restart()

    run(scenario)


def test_a_disk_that_failed_takes_its_replicas_offline_and_no_others() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3), (2, 3))
        cluster.brokers[2].failed_partitions.add(P0)
        # Whoever is controller next tells everybody everything, and hears of it.
        await cluster.observer.delete("/controller")
        await cluster.settle()
        assert (await cluster.state("t", 0)).leader == 3
        assert (await cluster.state("t", 1)).leader == 2
        assert cluster.brokers[1].metadata[P0].offline_replicas == [2]

    run(scenario)
