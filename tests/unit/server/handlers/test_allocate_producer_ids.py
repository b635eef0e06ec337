from __future__ import annotations

from ottla.controller.producer_id_blocks import BLOCK_SIZE
from ottla.kernel.errors import ErrorCode
from ottla.server.handlers.allocate_producer_ids import handle
from ottla.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from tests.support.controller_services import asked_in, services_of
from tests.unit.controller.brokers import SimulatedCluster, run


async def allocate(
    cluster: SimulatedCluster, broker_id: int, *, at: int = 1, epoch: int | None = None
) -> AllocateProducerIdsResponse:
    if epoch is None:
        epoch = cluster.brokers[broker_id].epoch
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
    return await handle(services_of(cluster, at), request, asked_in(0))


def test_no_id_is_given_out_twice() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for number, broker_id in enumerate((1, 3, 3)):
            response = await allocate(cluster, broker_id)
            assert response.error_code == ErrorCode.NONE
            block = (response.producer_id_start, response.producer_id_len)
            assert block == (number * BLOCK_SIZE, BLOCK_SIZE)

    run(scenario)


def test_who_may_not_ask_gets_none() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        answers = [
            await allocate(cluster, 2, epoch=1),
            await allocate(cluster, 9, epoch=1),
            await allocate(cluster, 2, at=3),
        ]
        assert [each.error_code for each in answers] == [
            ErrorCode.STALE_BROKER_EPOCH,
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            ErrorCode.NOT_CONTROLLER,
        ]
        assert {each.producer_id_len for each in answers} == {0}
        assert (await allocate(cluster, 2)).producer_id_start == 0

    run(scenario)
