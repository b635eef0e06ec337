from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.server.handlers.alter_partition import handle
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.support.controller_services import asked_in, services_of
from tests.unit.controller.brokers import SimulatedCluster, run

LEADER = 2


async def alter(
    cluster: SimulatedCluster,
    isr: list[int],
    *,
    version: int = 3,
    at: int = 1,
    broker_epoch: int | None = None,
    partition_epoch: int = 0,
) -> AlterPartitionResponse:
    """The leader asks broker 1, which is the controller, or another."""
    epochs = {int(broker.id): broker.epoch for broker in cluster.brokers.values()}
    data = PartitionData(partition_index=0, leader_epoch=0, partition_epoch=partition_epoch)
    if version < 3:
        data.new_isr = isr
    else:
        data.new_isr_with_epochs = [
            BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in isr
        ]
    active = cluster.active.controller._active
    assert active is not None
    topic = TopicData(topic_name="t", topic_id=active.context.topics["t"].id, partitions=[data])
    request = AlterPartitionRequest(
        broker_id=LEADER,
        broker_epoch=epochs[LEADER] if broker_epoch is None else broker_epoch,
        topics=[topic],
    )
    return await handle(services_of(cluster, at), request, asked_in(version))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_leader_takes_a_follower_out_of_the_isr_and_in_again(version: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        for number, isr in enumerate([[2], [2, 3]]):
            response = await alter(cluster, isr, version=version, partition_epoch=number)
            assert response.error_code == ErrorCode.NONE
            (partition,) = response.topics[0].partitions
            assert (partition.error_code, partition.isr) == (ErrorCode.NONE, isr)
            assert (partition.leader_id, partition.leader_epoch) == (LEADER, 0)
            assert partition.partition_epoch == number + 1
            assert (await cluster.state("t")).isr == tuple(isr)

    run(scenario)


def test_what_is_out_of_date_is_refused() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        assert (await alter(cluster, [2])).error_code == ErrorCode.NONE
        late = await alter(cluster, [2, 3])
        assert late.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
        stale = await alter(cluster, [2, 3], broker_epoch=1, partition_epoch=1)
        assert (stale.error_code, stale.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
        elsewhere = await alter(cluster, [2, 3], at=3, partition_epoch=1)
        assert (elsewhere.error_code, elsewhere.topics) == (ErrorCode.NOT_CONTROLLER, [])
        assert (await cluster.state("t")).isr == (2,)

    run(scenario)
