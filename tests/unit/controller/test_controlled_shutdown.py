from __future__ import annotations

import pytest

from ottla.controller import controlled_shutdown
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from tests.unit.controller.brokers import SimulatedCluster
from tests.unit.controller.brokers import run as run_cluster
from tests.unit.controller.contexts import EPOCH, P0, make_context, make_plan, run


def request(broker_id: int, epoch: int | None = None) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(
        broker_id=broker_id, broker_epoch=100 + broker_id if epoch is None else epoch
    )


def test_leadership_goes_to_another_in_sync_replica() -> None:
    context = make_context()
    plan = make_plan(context)
    run(controlled_shutdown.plan_shutdown(plan, request(1)))
    assert plan.state(P0) == LeaderAndIsr(2, 6, (2, 3), EPOCH)
    plan.apply()
    assert controlled_shutdown.response(context, 1).remaining_partitions == []


def test_a_follower_leaves_the_isr() -> None:
    plan = make_plan(make_context())
    run(controlled_shutdown.plan_shutdown(plan, request(3)))
    assert plan.state(P0) == LeaderAndIsr(1, 6, (1, 2), EPOCH)


def test_what_nobody_else_can_lead_remains() -> None:
    context = make_context(isr=(1,))
    plan = make_plan(context)
    before = plan.state(P0)
    run(controlled_shutdown.plan_shutdown(plan, request(1)))
    assert plan.state(P0) == before
    plan.apply()
    (remaining,) = controlled_shutdown.response(context, 1).remaining_partitions
    assert (remaining.topic_name, remaining.partition_index) == ("t", 0)


def test_a_single_replica_is_nobody_elses_and_does_not_count() -> None:
    context = make_context(replicas=(1,))
    plan = make_plan(context)
    run(controlled_shutdown.plan_shutdown(plan, request(1)))
    plan.apply()
    assert controlled_shutdown.response(context, 1).remaining_partitions == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(1, epoch=99), ErrorCode.STALE_BROKER_EPOCH),
        (request(9), ErrorCode.BROKER_NOT_AVAILABLE),
    ],
)
def test_who_is_not_registered_so_is_refused(
    asked: ControlledShutdownRequest, code: ErrorCode
) -> None:
    context = make_context()
    with pytest.raises(KafkaError) as caught:
        run(controlled_shutdown.plan_shutdown(make_plan(context), asked))
    assert caught.value.code is code
    assert not context.shutting_down


def test_a_broker_stops_and_nobody_waits_for_it() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3), (3, 2))
        broker = cluster.brokers[2]
        asked = ControlledShutdownRequest(broker_id=2, broker_epoch=broker.epoch)
        answer = await cluster.active.controller.controlled_shutdown(asked)
        assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.NONE, [])
        await cluster.settle()
        for partition in (0, 1):
            state = await cluster.state("t", partition)
            assert (state.leader, state.isr) == (3, (3,))
        assert broker.replicas[P0].leader == 3
        epochs = [(await cluster.state("t", each)).leader_epoch for each in (0, 1)]
        await broker.stop()
        await cluster.settle()
        assert [(await cluster.state("t", each)).leader_epoch for each in (0, 1)] == epochs
        active = cluster.active.controller._active
        assert active is not None
        assert BrokerId(2) not in active.context.shutting_down

    run_cluster(scenario)
