from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.server.handlers.controlled_shutdown import handle
from ottla.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from tests.support.controller_services import asked_in, services_of
from tests.unit.controller.brokers import SimulatedCluster, run


async def shut_down(
    cluster: SimulatedCluster, broker_id: int, *, at: int = 1, epoch: int | None = None
) -> ControlledShutdownResponse:
    if epoch is None:
        epoch = cluster.brokers[broker_id].epoch
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=epoch)
    return await handle(services_of(cluster, at), request, asked_in(3))


def test_what_nobody_else_can_lead_now_remains() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3), (2, 3))
        await cluster.create("alone", (2,))
        await cluster.brokers[3].stop()
        await cluster.settle()
        response = await shut_down(cluster, 2)
        assert response.error_code == ErrorCode.NONE
        remaining = [
            (each.topic_name, each.partition_index) for each in response.remaining_partitions
        ]
        assert sorted(remaining) == [("t", 0), ("t", 1)]

    run(scenario)


def test_a_broker_hands_over_what_others_can_lead() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        response = await shut_down(cluster, 2)
        assert (response.error_code, response.remaining_partitions) == (ErrorCode.NONE, [])
        state = await cluster.state("t")
        assert (state.leader, state.isr) == (3, (3,))

    run(scenario)


def test_who_may_not_ask_changes_nothing() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        stale = await shut_down(cluster, 2, epoch=1)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        unknown = await shut_down(cluster, 9, epoch=1)
        assert unknown.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        elsewhere = await shut_down(cluster, 2, at=3)
        assert elsewhere.error_code == ErrorCode.NOT_CONTROLLER
        assert (await cluster.state("t")).leader == 2

    run(scenario)
