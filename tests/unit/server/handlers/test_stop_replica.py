from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaResponse
from tests.support.controller_requests import stop_replica
from tests.support.simulated_broker import SimulatedBroker, with_broker


@pytest.mark.parametrize("version", [3, 4])
def test_a_replica_is_deleted(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        request = stop_replica(broker_epoch=broker.broker_epoch, delete=True)
        request.controller_epoch = 2  # The broker's own controller numbers what it says in epoch 1.
        response = await broker.call(request, StopReplicaResponse, version)
        assert response.error_code == ErrorCode.NONE
        (answer,) = response.partition_errors
        assert (answer.topic_name, answer.partition_index, answer.error_code) == ("t", 0, 0)
        gone = await broker.produce("t", b"v")
        assert gone.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(test)
