from __future__ import annotations

import pytest

from ottla.controller import leader_elections
from ottla.controller.leader_elections import ElectionType
from ottla.coordination.znodes import LeaderAndIsr, ReplicaAssignment
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicPartition
from tests.unit.controller.brokers import SimulatedCluster
from tests.unit.controller.brokers import run as run_cluster
from tests.unit.controller.contexts import P0, make_context, make_plan, run

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


@pytest.mark.parametrize(
    ("kind", "live", "isr", "leader", "code", "leader_after"),
    [
        (PREFERRED, (1, 2, 3), (1, 2, 3), 2, None, 1),
        (PREFERRED, (1, 2, 3), (1, 2, 3), 1, ErrorCode.ELECTION_NOT_NEEDED, 1),
        (PREFERRED, (1, 2, 3), (2, 3), 2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 2),
        (PREFERRED, (2, 3), (1, 2, 3), 2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 2),
        (UNCLEAN, (2, 3), (1,), -1, None, 2),
        (UNCLEAN, (1, 2, 3), (1,), 1, ErrorCode.ELECTION_NOT_NEEDED, 1),
        (UNCLEAN, (4,), (1,), -1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, -1),
    ],
)
def test_an_election_that_is_asked_for(
    kind: ElectionType,
    live: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    code: ErrorCode | None,
    leader_after: int,
) -> None:
    plan = make_plan(make_context(live=live, isr=isr, leader=leader))
    error = run(leader_elections.plan_elections(plan, kind, [P0]))[P0]
    assert (error.code if error else None) is code
    state = plan.state(P0)
    assert state is not None
    assert state.leader == leader_after


def test_of_what_is_not_there_or_goes_nobody_leads() -> None:
    context = make_context(leader=2)
    context.topics_to_delete.add("t")
    asked = [P0, TopicPartition("t", 5), TopicPartition("u", 0)]
    results = run(leader_elections.plan_elections(make_plan(context), PREFERRED, asked))
    for error in results.values():
        assert error is not None
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leaders_go_back_when_more_than_the_given_share_is_elsewhere() -> None:
    context = make_context(leader=2, partition_count=10)
    for number in range(8):
        each = TopicPartition("t", number)
        committed = context.committed[each]
        context.committed[each] = committed._replace(state=committed.state._replace(leader=1))
    assert leader_elections.imbalanced(context, 20) == []
    away = [TopicPartition("t", 8), TopicPartition("t", 9)]
    assert leader_elections.imbalanced(context, 19) == away
    context.shutting_down.add(BrokerId(1))
    assert leader_elections.imbalanced(context, 19) == []


def test_only_those_that_can_go_back_do() -> None:
    context = make_context(leader=2)
    assert leader_elections.imbalanced(context, 10) == [P0]
    topic = context.topics["t"]
    context.put_topic(topic._replace(partitions=(ReplicaAssignment((1, 2, 3), (3,), ()),)))
    assert leader_elections.imbalanced(context, 10) == []
    assert leader_elections.imbalanced(make_context(leader=2, isr=(2, 3)), 10) == []
    assert leader_elections.imbalanced(make_context(leader=2, live=(2, 3)), 10) == []


async def lead_elsewhere(cluster: SimulatedCluster) -> None:
    """Broker 2 is preferred for `t`, and 3 leads it."""
    await cluster.create("t", (2, 3), (3, 2))
    active = cluster.active.controller._active
    assert active is not None
    await cluster.brokers[2].crash()
    await cluster.settle()
    await cluster.brokers[2].restart()
    await cluster.settle()
    plan = active.plan()  # As if AlterPartition had let it in again.
    state = plan.state(P0)
    assert state is not None
    plan.set_state(P0, state._replace(isr=(3, 2)))
    plan.requests.update_metadata([P0])
    await active.commit(plan)
    assert (await cluster.state("t")).leader == 3


def test_leaders_go_back_by_themselves() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lead_elsewhere(cluster)
        await cluster.settle(60)
        assert (await cluster.state("t")).leader == 2
        assert cluster.brokers[3].replicas[P0].leader == 2

    run_cluster(scenario, settings={"leader.imbalance.check.interval.seconds": "30"})


def test_leaders_stay_where_they_are_when_that_is_off() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lead_elsewhere(cluster)
        await cluster.settle(600)
        assert (await cluster.state("t")).leader == 3

    run_cluster(scenario, settings={"auto.leader.rebalance.enable": "false"})


def test_elections_of_all_partitions_say_nothing_of_those_that_need_none() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lead_elsewhere(cluster)
        results = await cluster.active.controller.elect_leaders(PREFERRED, None)
        assert results == {P0: None}
        again = await cluster.active.controller.elect_leaders(PREFERRED, [P0])
        error = again[P0]
        assert error is not None
        assert error.code is ErrorCode.ELECTION_NOT_NEEDED

    run_cluster(scenario)


@pytest.mark.parametrize("is_there_first", [False, True])
def test_a_node_asks_for_preferred_elections_and_goes(is_there_first: bool) -> None:
    node = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"no","partition":9}]}'

    async def scenario(cluster: SimulatedCluster) -> None:
        await lead_elsewhere(cluster)
        if is_there_first:
            await cluster.brokers[1].stop()
        await cluster.observer.create("/admin/preferred_replica_election", node)
        await cluster.settle()
        assert (await cluster.state("t")).leader == 2
        assert not await cluster.observer.exists("/admin/preferred_replica_election")
        await cluster.observer.create("/admin/preferred_replica_election", b"no JSON")
        await cluster.settle()
        assert not await cluster.observer.exists("/admin/preferred_replica_election")

    run_cluster(scenario)


def test_an_unclean_election_by_hand() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        await cluster.brokers[3].crash()
        await cluster.settle()
        await cluster.brokers[2].crash()
        await cluster.settle()
        await cluster.brokers[3].restart()
        await cluster.settle()
        assert (await cluster.state("t")).leader == -1
        assert await cluster.active.controller.elect_leaders(UNCLEAN, None) == {P0: None}
        state = await cluster.state("t")
        assert state == LeaderAndIsr(3, state.leader_epoch, (3,), 1, leader_recovery_state=1)

    run_cluster(scenario)
