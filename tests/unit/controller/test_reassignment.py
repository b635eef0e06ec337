from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from ottla.controller import reassignment
from ottla.controller.reassignment import moving, origin_of, target_of
from ottla.coordination import znodes
from ottla.coordination.znodes import ReplicaAssignment
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.unit.controller.brokers import SimulatedCluster, run
from tests.unit.controller.contexts import P0


def test_the_way_from_one_assignment_to_another() -> None:
    step = moving(ReplicaAssignment((1, 2)), (3, 2))
    assert step == ReplicaAssignment((3, 2, 1), adding_replicas=(3,), removing_replicas=(1,))
    assert (origin_of(step), target_of(step)) == ((2, 1), (3, 2))
    assert moving(step, (4, 2)) == ReplicaAssignment((4, 2, 1), (4,), (1,))
    assert moving(ReplicaAssignment((1, 2)), (2, 1)) == ReplicaAssignment((2, 1))


async def assignment(cluster: SimulatedCluster, partition: int = 0) -> ReplicaAssignment:
    node = await cluster.observer.get(znodes.topic_path("t"))
    return znodes.decode_topic("t", node.data).partitions[partition]


async def let_in(cluster: SimulatedCluster, isr: Sequence[int], partition: int = 0) -> None:
    """The leader has seen that these have caught up."""
    each = TopicPartition("t", partition)
    active = cluster.active.controller._active
    assert active is not None
    state, partition_epoch = active.context.committed[each]
    data = PartitionData(
        partition_index=partition,
        leader_epoch=state.leader_epoch,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=broker, broker_epoch=cluster.brokers[broker].epoch)
            for broker in isr
        ],
    )
    answer = await cluster.active.controller.alter_partition(
        AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=cluster.brokers[state.leader].epoch,
            topics=[TopicData(topic_id=active.context.topics["t"].id, partitions=[data])],
        ),
        3,
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    await cluster.settle()


async def move(cluster: SimulatedCluster, target: Sequence[int] | None) -> ErrorCode | None:
    results = await cluster.active.controller.alter_reassignments({P0: target})
    await cluster.settle()
    error = results[P0]
    if error is not None:
        assert error.message
    return None if error is None else error.code


def test_a_partition_moves_when_its_new_replicas_have_caught_up() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        assert await move(cluster, (3, 2)) is None
        assert await assignment(cluster) == ReplicaAssignment((3, 2, 1), (3,), (1,))
        assert cluster.brokers[3].replicas[P0].is_new
        assert cluster.brokers[1].replicas[P0].adding_replicas == [3]
        listed = await cluster.active.controller.list_reassignments(None)
        assert listed == {P0: ReplicaAssignment((3, 2, 1), (3,), (1,))}
        assert await cluster.active.controller.list_reassignments([]) == {}

        await let_in(cluster, (1, 2, 3))
        assert await assignment(cluster) == ReplicaAssignment((3, 2))
        state = await cluster.state("t")
        assert (state.leader, set(state.isr)) == (3, {2, 3})
        assert P0 not in cluster.brokers[1].replicas
        assert cluster.brokers[3].replicas[P0].replicas == [3, 2]
        assert await cluster.active.controller.list_reassignments(None) == {}

    run(scenario)


def test_the_leader_stays_when_it_is_one_of_the_target() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        await move(cluster, (3, 1))
        await let_in(cluster, (1, 2, 3))
        state = await cluster.state("t")
        assert (state.leader, set(state.isr)) == (1, {1, 3})
        assert P0 not in cluster.brokers[2].replicas
        assert cluster.brokers[1].replicas[P0].replicas == [3, 1]

    run(scenario)


def test_fewer_replicas_and_another_order_are_done_at_once() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert await move(cluster, (2, 1)) is None
        assert await assignment(cluster) == ReplicaAssignment((2, 1))
        assert P0 not in cluster.brokers[3].replicas
        before = await cluster.state("t")
        assert await move(cluster, (1, 2)) is None
        assert await assignment(cluster) == ReplicaAssignment((1, 2))
        assert (await cluster.state("t")).leader == before.leader
        after = await cluster.state("t")
        assert await move(cluster, (1, 2)) is None
        assert await cluster.state("t") == after

    run(scenario)


def test_who_was_moved_away_is_eligible_no_more_when_it_comes_back() -> None:
    """It has deleted its log, and the only replica has committed by itself since then: to lead it
    is to lose all of that (KIP-966)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert await move(cluster, (1,)) is None
        assert (await cluster.state("t")).eligible_leader_replicas == ()
        assert await move(cluster, (1, 2)) is None  # Which has not caught up yet.
        await cluster.brokers[1].crash()
        await cluster.settle()
        state = await cluster.state("t")
        assert (state.leader, state.isr) == (-1, (1,))

    run(scenario, settings={"min.insync.replicas": "2"})


def test_who_deletes_its_log_is_not_eligible_where_the_controller_dies_before_the_last_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller leads the partition as well: those who have deleted their logs, and are still
    assigned, are all that is left."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert cluster.active.id == 1
        with monkeypatch.context() as patch:
            cut_short: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def stop_there(*_: object) -> None:
                cut_short.set_result(None)
                raise RuntimeError("the last step is not reached")

            patch.setattr(reassignment, "_plan_end", stop_there)
            moving = asyncio.create_task(move(cluster, (1,)))
            await cut_short
            await cluster.brokers[1].crash()
            await asyncio.wait([moving])
            assert moving.cancelled()
        await cluster.settle()
        state = await cluster.state("t")
        assert (state.leader, state.isr, state.eligible_leader_replicas) == (-1, (1,), ())
        await cluster.brokers[1].restart()
        await cluster.settle()
        assert (await cluster.state("t")).leader == 1

    run(scenario, settings={"min.insync.replicas": "2"})


def test_a_reassignment_is_cancelled() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        await move(cluster, (3, 2))
        assert await move(cluster, None) is None
        assert set((await assignment(cluster)).replicas) == {1, 2}
        assert P0 not in cluster.brokers[3].replicas
        assert await move(cluster, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    run(scenario)


def test_what_is_cancelled_is_led_by_one_that_stays() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2,))
        await move(cluster, (3, 1))
        await let_in(cluster, (2, 3))
        await cluster.brokers[2].crash()
        await cluster.settle()
        assert (await cluster.state("t")).leader == 3
        assert await move(cluster, None) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        await cluster.brokers[2].restart()
        await cluster.settle()
        await let_in(cluster, (3, 2))
        assert await move(cluster, None) is None
        state = await cluster.state("t")
        assert (state.leader, state.isr) == (2, (2,))
        assert P0 not in cluster.brokers[3].replicas

    run(scenario)


def test_another_target_replaces_the_first() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        await move(cluster, (3, 2))
        await move(cluster, (4, 2))
        assert await assignment(cluster) == ReplicaAssignment((4, 2, 1), (4,), (1,))
        assert P0 not in cluster.brokers[3].replicas
        assert P0 in cluster.brokers[4].replicas

    run(scenario, ids=[1, 2, 3, 4])


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((9,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_is_refused(target: tuple[int, ...] | None, code: ErrorCode) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        before = await cluster.observer.tree("/")
        assert await move(cluster, target) is code
        other = TopicPartition("t", 1)
        results = await cluster.active.controller.alter_reassignments({other: (1,)})
        error = results[other]
        assert error is not None
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await cluster.observer.tree("/") == before

    run(scenario)


def test_a_new_controller_goes_on() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        await move(cluster, (4, 3))
        await cluster.brokers[1].crash()
        await cluster.settle()
        await let_in(cluster, (2, 3, 4))
        assert await assignment(cluster) == ReplicaAssignment((4, 3))
        assert P0 not in cluster.brokers[2].replicas

    run(scenario, ids=[1, 2, 3, 4])


def test_a_controller_that_is_cut_off_after_the_handover_leaves_it_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        await move(cluster, (4, 3))

        def fail(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(reassignment, "_plan_end", fail)
            await let_in(cluster, (2, 3, 4))
            assert (await cluster.state("t")).leader == 4
            assert (await assignment(cluster)).removing_replicas == (2,)
        await cluster.settle()
        assert await assignment(cluster) == ReplicaAssignment((4, 3))
        assert P0 not in cluster.brokers[2].replicas

    run(scenario, ids=[1, 2, 3, 4])


def asked(**replicas: Sequence[int]) -> bytes:
    partitions = [
        {"topic": topic, "partition": 0, "replicas": list(brokers)}
        for topic, brokers in replicas.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions}).encode()


@pytest.mark.parametrize("is_there_first", [False, True])
def test_a_node_asks_for_it_and_goes_when_it_is_done(is_there_first: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2,))
        if is_there_first:
            await cluster.brokers[1].stop()
        await cluster.observer.create(znodes.REASSIGN_PARTITIONS, asked(t=(3,), no=(1,)))
        await cluster.settle()
        assert await assignment(cluster) == ReplicaAssignment((3, 2), (3,), (2,))
        assert await cluster.observer.exists(znodes.REASSIGN_PARTITIONS)
        await let_in(cluster, (2, 3))
        assert await assignment(cluster) == ReplicaAssignment((3,))
        assert not await cluster.observer.exists(znodes.REASSIGN_PARTITIONS)

    run(scenario)


def test_a_node_that_asks_for_nothing_goes() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2,))
        for data in (b"", b"no JSON", b'{"partitions":[3]}', asked(t=(2,)), asked(no=(1,))):
            await cluster.observer.create(znodes.REASSIGN_PARTITIONS, data)
            await cluster.settle()
            assert not await cluster.observer.exists(znodes.REASSIGN_PARTITIONS)

    run(scenario)


def test_a_topic_that_is_moved_can_be_deleted() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2,))
        await move(cluster, (3,))
        await cluster.active.controller.topics.delete("t")
        assert not await cluster.observer.exists(znodes.topic_path("t"))
        assert not cluster.brokers[3].replicas
        assert await move(cluster, (1,)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)
