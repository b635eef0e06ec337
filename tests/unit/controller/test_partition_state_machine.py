from __future__ import annotations

import pytest

from ottla.controller import partition_state_machine
from ottla.controller.change_plan import ChangePlan
from ottla.controller.leader_selectors import Candidates, Elected, offline, preferred
from ottla.controller.partition_state_machine import PREVIOUS_STATES, PartitionState
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.ids import TopicPartition
from tests.unit.controller.contexts import EPOCH, P0, make_context, make_plan, run


@pytest.mark.parametrize("target", list(PartitionState))
@pytest.mark.parametrize("current", list(PartitionState))
def test_only_what_the_table_allows_is_done(
    current: PartitionState, target: PartitionState
) -> None:
    plan = make_plan(make_context())
    plan.set_partition_state(P0, current)
    if current in PREVIOUS_STATES[target]:
        partition_state_machine.move(plan, P0, target)
        assert plan.partition_state(P0) is target
    else:
        with pytest.raises(AssertionError, match="cannot become"):
            partition_state_machine.move(plan, P0, target)


def new_partition(live: tuple[int, ...]) -> ChangePlan:
    context = make_context(live=live)
    del context.committed[P0]
    context.partition_states[P0] = PartitionState.NEW
    return make_plan(context)


def test_a_new_partition_begins_with_all_who_are_online() -> None:
    plan = new_partition(live=(2, 3))
    run(partition_state_machine.initialize(plan, [P0]))
    assert plan.state(P0) == LeaderAndIsr(2, 0, (2, 3), EPOCH)
    assert plan.partition_state(P0) is PartitionState.ONLINE


def test_the_leader_epoch_of_a_topic_taken_over_goes_on() -> None:
    plan = new_partition(live=(1,))
    run(partition_state_machine.initialize(plan, [P0], {0: 12}))
    state = plan.state(P0)
    assert state is not None
    assert state.leader_epoch == 12


def test_a_new_partition_without_anybody_waits() -> None:
    plan = new_partition(live=(4,))
    run(partition_state_machine.initialize(plan, [P0]))
    assert plan.state(P0) is None
    assert plan.partition_state(P0) is PartitionState.NEW


def select_offline(each: TopicPartition, candidates: Candidates) -> Elected | None:
    return offline(candidates, allows_unclean=False)


def test_an_election_begins_a_leader_epoch() -> None:
    plan = make_plan(make_context(live=(2, 3)))
    assert run(partition_state_machine.elect(plan, [P0], select_offline)) == []
    assert plan.state(P0) == LeaderAndIsr(2, 6, (2, 3), EPOCH)


def test_who_leaves_a_small_isr_in_an_election_stays_eligible() -> None:
    config = {"min.insync.replicas": "2"}
    plan = make_plan(make_context(live=(2,), isr=(1, 2), eligible=(3,), config=config))
    run(partition_state_machine.elect(plan, [P0], select_offline))
    assert plan.state(P0) == LeaderAndIsr(2, 6, (2,), EPOCH, eligible_leader_replicas=(1, 3))


def test_an_unclean_election_leaves_nobody_eligible_and_a_leader_that_recovers() -> None:
    config = {"min.insync.replicas": "2"}
    plan = make_plan(make_context(live=(2,), isr=(1,), eligible=(3,), config=config))

    def select(each: TopicPartition, candidates: Candidates) -> Elected | None:
        return offline(candidates, allows_unclean=True)

    run(partition_state_machine.elect(plan, [P0], select))
    assert plan.state(P0) == LeaderAndIsr(2, 6, (2,), EPOCH, leader_recovery_state=1)


def test_nothing_changes_where_nobody_can_be_elected() -> None:
    plan = make_plan(make_context(live=(3,), isr=(1, 2)))
    before = plan.state(P0)
    assert run(partition_state_machine.elect(plan, [P0], select_offline)) == [P0]
    assert plan.state(P0) is before
    assert run(plan.operations()) == []


def test_leadership_goes_back_to_the_preferred_replica() -> None:
    plan = make_plan(make_context(leader=3))
    assert run(partition_state_machine.elect(plan, [P0], lambda _, each: preferred(each))) == []
    assert plan.state(P0) == LeaderAndIsr(1, 6, (1, 2, 3), EPOCH)
