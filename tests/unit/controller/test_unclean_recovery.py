from __future__ import annotations

import pytest

from ottla.controller import unclean_recovery
from ottla.controller.leader_elections import ElectionType
from ottla.controller.unclean_recovery import LogEnd
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.ids import BrokerId
from tests.unit.controller.brokers import SimulatedCluster, run
from tests.unit.controller.contexts import EPOCH, P0, make_context, make_plan
from tests.unit.controller.contexts import run as run_plan


@pytest.mark.parametrize(
    ("leader", "isr", "eligible", "expected"),
    [
        # Another has everything.
        (2, (2, 3), (), LeaderAndIsr(2, 6, (2,), EPOCH)),
        (2, (2,), (3,), LeaderAndIsr(2, 6, (2,), EPOCH)),
        (-1, (2, 3), (), LeaderAndIsr(-1, 6, (2,), EPOCH, last_known_elr=(3,))),
        (
            -1,
            (3,),
            (1,),
            LeaderAndIsr(-1, 6, (), EPOCH, eligible_leader_replicas=(1,), last_known_elr=(3,)),
        ),
        # Nobody has.
        (-1, (3,), (), LeaderAndIsr(-1, 6, (), EPOCH, last_known_elr=(3,))),
        # It had not.
        (2, (2,), (1,), None),
    ],
)
def test_who_lost_the_end_of_its_log_is_in_sync_no_more(
    leader: int, isr: tuple[int, ...], eligible: tuple[int, ...], expected: LeaderAndIsr | None
) -> None:
    context = make_context(live=(1, 2), isr=isr, leader=leader, eligible=eligible)
    plan = make_plan(context)
    run_plan(unclean_recovery.plan_loss_of_tails(plan, BrokerId(3)))
    assert plan.state(P0) == (expected or context.committed[P0].state)


async def lose_power(cluster: SimulatedCluster, **ends: LogEnd) -> None:
    """All of `t`, at once."""
    await cluster.create("t", (1, 2, 3))
    for each in (1, 2, 3):
        await cluster.brokers[each].crash()
    for broker, end in zip((1, 2, 3), ends.values(), strict=True):
        cluster.brokers[broker].log_ends[P0] = end


def test_after_a_power_failure_all_of_the_last_isr_are_waited_for_and_the_highest_leads() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lose_power(cluster, one=LogEnd(1, 90), two=LogEnd(2, 50), three=LogEnd(2, 60))
        for each in (1, 2):
            await cluster.brokers[each].restart(has_lost_tail=True)
            await cluster.settle(60)
            assert (await cluster.state("t")).leader == -1
        await cluster.brokers[3].restart(has_lost_tail=True)
        await cluster.settle()
        state = await cluster.state("t")
        assert (state.leader, state.isr, state.last_known_elr) == (3, (3,), ())
        assert cluster.brokers[1].replicas[P0].leader == 3

    run(scenario)


def test_one_that_lost_nothing_leads_as_soon_as_it_is_there() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lose_power(cluster, one=LogEnd(1, 90), two=LogEnd(1, 95), three=LogEnd(1, 60))
        await cluster.brokers[1].restart(has_lost_tail=True)
        await cluster.settle()
        await cluster.brokers[3].restart()
        await cluster.settle()
        state = await cluster.state("t")
        assert (state.leader, state.isr) == (3, (3,))
        await cluster.brokers[2].restart(has_lost_tail=True)
        await cluster.settle()
        assert (await cluster.state("t")).isr == (3,)

    run(scenario)


def test_a_broker_alone_leads_what_it_has() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1,))
        await cluster.brokers[1].crash()
        await cluster.brokers[1].restart(has_lost_tail=True)
        await cluster.settle()
        state = await cluster.state("t")
        assert (state.leader, state.isr) == (1, (1,))
        assert state.leader_epoch > 0

    run(scenario, ids=[1])


def test_a_registration_is_acted_on_once() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        await cluster.brokers[2].crash()
        await cluster.settle()
        await cluster.brokers[2].restart(has_lost_tail=True)
        await cluster.settle()
        active = cluster.active.controller._active
        assert active is not None
        plan = active.plan()  # As if AlterPartition had let it in again.
        state = plan.state(P0)
        assert state is not None
        plan.set_state(P0, state._replace(isr=(3, 2)))
        await active.commit(plan)
        await cluster.brokers[1].crash()
        await cluster.settle()
        assert cluster.active.id != 1
        assert (await cluster.state("t")).isr == (3, 2)

    run(scenario)


def test_a_broker_that_cannot_be_asked_is_asked_again() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lose_power(cluster, one=LogEnd(1, 10), two=LogEnd(1, 20), three=LogEnd(1, 15))
        for each in (1, 2, 3):
            await cluster.brokers[each].restart(has_lost_tail=True)
        cluster.brokers[2].is_running = False
        await cluster.settle(30)
        assert (await cluster.state("t")).leader == -1
        cluster.brokers[2].is_running = True
        await cluster.settle()
        assert (await cluster.state("t")).leader == 2

    run(scenario)


def test_an_unclean_election_does_not_wait() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lose_power(cluster, one=LogEnd(1, 10), two=LogEnd(1, 20), three=LogEnd(1, 15))
        await cluster.brokers[1].restart(has_lost_tail=True)
        await cluster.settle()
        controller = cluster.active.controller
        results = await controller.elect_leaders(ElectionType.UNCLEAN, [P0])
        assert results == {P0: None}
        assert (await cluster.state("t")).leader == 1
        for each in (2, 3):
            await cluster.brokers[each].restart(has_lost_tail=True)

    run(scenario)
