from __future__ import annotations

import pytest

from ottla.controller.producer_id_blocks import BLOCK_SIZE, next_block
from ottla.coordination.znodes import ProducerIdBlock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tests.unit.controller.brokers import SimulatedCluster, run


def test_each_block_begins_where_the_last_one_ends() -> None:
    first = next_block(None, 1)
    assert first == ProducerIdBlock(1, 0, BLOCK_SIZE - 1)
    assert next_block(first, 2) == ProducerIdBlock(2, BLOCK_SIZE, 2 * BLOCK_SIZE - 1)


def test_there_is_an_end_to_them() -> None:
    with pytest.raises(KafkaError, match="All producer ids"):
        next_block(ProducerIdBlock(1, 0, 2**63 - 5), 1)


def test_brokers_ask_the_controller_for_them() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        starts = []
        for broker in cluster.brokers.values():
            asked = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
            answer = await cluster.active.controller.allocate_producer_ids(asked)
            assert (answer.error_code, answer.producer_id_len) == (ErrorCode.NONE, BLOCK_SIZE)
            starts.append(answer.producer_id_start)
        assert starts == [0, BLOCK_SIZE, 2 * BLOCK_SIZE]
        for epoch in (1, -1):
            stale = AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch)
            answer = await cluster.active.controller.allocate_producer_ids(stale)
            assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        stranger = AllocateProducerIdsRequest(broker_id=7, broker_epoch=1)
        answer = await cluster.active.controller.allocate_producer_ids(stranger)
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        answer = await cluster.brokers[2].controller.allocate_producer_ids(stale)
        assert answer.error_code == ErrorCode.NOT_CONTROLLER

    run(scenario)
