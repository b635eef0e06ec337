from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker


@pytest.mark.parametrize("version", [7, 8])
def test_clients_hear_of_the_brokers_that_the_controller_names(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        brokers = [
            UpdateMetadataBroker(
                id=number,
                endpoints=[UpdateMetadataEndpoint(port=9092, host=host, listener="PLAINTEXT")],
            )
            for number, host in ((1, "localhost"), (2, "elsewhere"))
        ]
        request = UpdateMetadataRequest(
            controller_id=2,
            controller_epoch=5,
            broker_epoch=broker.broker_epoch,
            live_brokers=brokers,
        )
        response = await broker.call(request, UpdateMetadataResponse, version)
        assert response.error_code == ErrorCode.NONE
        metadata = await broker.call(MetadataRequest(topics=[]), MetadataResponse)
        assert {each.node_id: each.host for each in metadata.brokers} == {
            1: "localhost",
            2: "elsewhere",
        }
        assert metadata.controller_id == 2

    with_broker(test, broker_id="1")
