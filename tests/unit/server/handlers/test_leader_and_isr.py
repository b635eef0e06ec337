from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import LeaderAndIsrResponse
from tests.support.controller_requests import TOPIC_ID, leader_and_isr, state_of
from tests.support.simulated_broker import SimulatedBroker, with_broker


@pytest.mark.parametrize("version", [5, 6, 7])
def test_a_broker_leads_what_the_controller_says(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = leader_and_isr(
            state_of(leader=1, isr=(1,), replicas=(1,)),
            broker_epoch=broker.broker_epoch,
            controller_epoch=2,  # The broker's own controller numbers what it says in epoch 1.
        )
        response = await broker.call(request, LeaderAndIsrResponse, version)
        assert response.error_code == ErrorCode.NONE
        (topic,) = response.topics
        assert topic.topic_id == TOPIC_ID
        assert [each.error_code for each in topic.partition_errors] == [ErrorCode.NONE]
        assert (await broker.produce("t", b"v")).error_code == ErrorCode.NONE

    with_broker(test, broker_id="1")


def test_what_is_for_an_earlier_run_of_the_broker_is_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = leader_and_isr(state_of(), broker_epoch=broker.broker_epoch - 1)
        response = await broker.call(request, LeaderAndIsrResponse)
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH

    with_broker(test)
