from __future__ import annotations

import pytest

from ottla.controller import replica_state_machine
from ottla.controller.replica_state_machine import PREVIOUS_STATES, ReplicaState
from ottla.coordination.znodes import LeaderAndIsr
from tests.unit.controller.contexts import EPOCH, P0, make_context, make_plan, on, run


@pytest.mark.parametrize("target", list(ReplicaState))
@pytest.mark.parametrize("current", list(ReplicaState))
def test_only_what_the_table_allows_is_done(current: ReplicaState, target: ReplicaState) -> None:
    plan = make_plan(make_context())
    (replica,) = on(1)
    plan.set_replica_state(replica, current)
    if current in PREVIOUS_STATES[target]:
        replica_state_machine.move(plan, replica, target)
        assert plan.replica_state(replica) is target
    else:
        with pytest.raises(AssertionError, match="cannot become"):
            replica_state_machine.move(plan, replica, target)


def test_a_follower_that_goes_leaves_the_isr_in_a_new_leader_epoch() -> None:
    plan = make_plan(make_context())
    run(replica_state_machine.take_offline(plan, on(3)))
    assert plan.state(P0) == LeaderAndIsr(1, 6, (1, 2), EPOCH)
    assert plan.replica_state(on(3)[0]) is ReplicaState.OFFLINE


def test_who_was_not_in_sync_changes_nothing_by_going() -> None:
    context = make_context(isr=(1, 2))
    plan = make_plan(context)
    run(replica_state_machine.take_offline(plan, on(3)))
    assert plan.state(P0) == context.committed[P0].state


def test_a_leader_that_goes_leaves_nobody_in_its_place() -> None:
    plan = make_plan(make_context())
    run(replica_state_machine.take_offline(plan, on(1)))
    assert plan.state(P0) == LeaderAndIsr(-1, 6, (2, 3), EPOCH)


def test_the_last_ones_stay_in_the_isr_however_many_go_at_once() -> None:
    plan = make_plan(make_context(isr=(1, 2)))
    run(replica_state_machine.take_offline(plan, on(1, 2, 3)))
    assert plan.state(P0) == LeaderAndIsr(-1, 6, (1, 2), EPOCH)


def test_below_min_insync_replicas_who_goes_stays_eligible() -> None:
    config = {"min.insync.replicas": "2"}
    plan = make_plan(make_context(isr=(1, 2), config=config))
    run(replica_state_machine.take_offline(plan, on(2)))
    assert plan.state(P0) == LeaderAndIsr(1, 6, (1,), EPOCH, eligible_leader_replicas=(2,))


def test_min_insync_replicas_counts_up_to_the_number_of_replicas() -> None:
    config = {"min.insync.replicas": "2"}
    plan = make_plan(make_context(replicas=(1,), config=config))
    run(replica_state_machine.take_offline(plan, on(1)))
    assert plan.state(P0) == LeaderAndIsr(-1, 6, (1,), EPOCH)


def test_deletion_and_what_follows_it() -> None:
    plan = make_plan(make_context())
    run(replica_state_machine.take_offline(plan, on(1, 2)))
    replica_state_machine.delete(plan, on(1, 2))
    assert plan.replica_state(on(2)[0]) is ReplicaState.DELETION_STARTED
    replica_state_machine.forget(plan, on(2))
    assert plan.replica_state(on(2)[0]) is ReplicaState.NON_EXISTENT
    plan.apply()
    assert on(2)[0] not in plan.context.replica_states


def test_a_replica_without_a_state_to_follow_is_online_and_told_nothing() -> None:
    context = make_context()
    del context.committed[P0]
    plan = make_plan(context)
    run(replica_state_machine.bring_online(plan, on(1)))
    assert plan.replica_state(on(1)[0]) is ReplicaState.ONLINE
    assert run(plan.operations()) == []
