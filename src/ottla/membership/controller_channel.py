"""What this broker itself asks of the controller, which may be this broker.

Inter-broker requests are listed nowhere, so their versions are Kafka 3.9's, the last that had all
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.controller.cluster_controller import ClusterController
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.peers import Peers
from ottla.metadata.image import ClusterImage
from ottla.wire.schema import Request, Response

if TYPE_CHECKING:
    from ottla.wire.messages.allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )
    from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from ottla.wire.messages.controlled_shutdown import (
        ControlledShutdownRequest,
        ControlledShutdownResponse,
    )

R = TypeVar("R", bound=Response)

ALTER_PARTITION_VERSION = 3
ALLOCATE_PRODUCER_IDS_VERSION = 0
CONTROLLED_SHUTDOWN_VERSION = 3

PURPOSE = "controller"


class ControllerChannel:
    """Owned by the broker. Each call raises KafkaError where the controller cannot be asked, and
    as `Peers.ask` does; the controller may have done it all the same."""

    def __init__(
        self, own_id: BrokerId, image: ClusterImage, controller: ClusterController, peers: Peers
    ) -> None:
        self._own_id = own_id
        self._image = image
        self._controller = controller
        self._peers = peers

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        controller_id = self._controller_id()
        if controller_id is None:
            return await self._controller.alter_partition(request, ALTER_PARTITION_VERSION)
        from ottla.wire.messages.alter_partition import AlterPartitionResponse

        return await self._ask(
            controller_id, request, AlterPartitionResponse, ALTER_PARTITION_VERSION
        )

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        controller_id = self._controller_id()
        if controller_id is None:
            return await self._controller.allocate_producer_ids(request)
        from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse

        return await self._ask(
            controller_id, request, AllocateProducerIdsResponse, ALLOCATE_PRODUCER_IDS_VERSION
        )

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        controller_id = self._controller_id()
        if controller_id is None:
            return await self._controller.controlled_shutdown(request)
        from ottla.wire.messages.controlled_shutdown import ControlledShutdownResponse

        return await self._ask(
            controller_id, request, ControlledShutdownResponse, CONTROLLED_SHUTDOWN_VERSION
        )

    async def _ask(
        self, controller_id: BrokerId, request: Request, response_class: type[R], version: int
    ) -> R:
        return await self._peers.ask(
            controller_id, request, response_class, purpose=PURPOSE, version=version
        )

    def _controller_id(self) -> BrokerId | None:
        """None: this broker itself."""
        controller_id = self._image.controller_id
        if controller_id < 0:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The cluster has no controller now.")
        return None if controller_id == self._own_id else BrokerId(controller_id)
