from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.controller.cluster_controller import ClusterController
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.controller_channel import ControllerChannel
from ottla.membership.peers import Peers
from ottla.metadata.image import ClusterImage
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

REQUESTS = [
    ("alter_partition", AlterPartitionRequest(), AlterPartitionResponse, 3),
    ("allocate_producer_ids", AllocateProducerIdsRequest(), AllocateProducerIdsResponse, 0),
    ("controlled_shutdown", ControlledShutdownRequest(), ControlledShutdownResponse, 3),
]


class Asked:
    """Both the controller of this broker, and the way to another one."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> str:
            self.calls.append((name, *args))
            return "plainly"

        return call

    async def ask(
        self, broker_id: int, request: Any, response_class: Any, *, purpose: str, version: int
    ) -> str:
        self.calls.append((broker_id, request, response_class, version))
        return "over the network"


@pytest.mark.parametrize(("name", "request_", "response_class", "version"), REQUESTS)
def test_whoever_is_the_controller_is_asked(
    name: str, request_: Any, response_class: Any, version: int
) -> None:
    async def main(loop: VirtualLoop) -> None:
        image, own, peers = ClusterImage(), Asked(), Asked()
        channel = ControllerChannel(
            BrokerId(1), image, cast("ClusterController", own), cast("Peers", peers)
        )
        call = getattr(channel, name)
        with pytest.raises(KafkaError) as raised:
            await call(request_)
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        image.controller_id = 2
        assert await call(request_) == "over the network"
        assert peers.calls == [(2, request_, response_class, version)]
        image.controller_id = 1
        assert await call(request_) == "plainly"
        ((asked, *args),) = own.calls
        assert (asked, args[0]) == (name, request_)

    run_virtual(main)
