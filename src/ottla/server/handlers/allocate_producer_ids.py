"""AllocateProducerIds: a broker asks the controller for a block of producer ids (KIP-730)."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(
    services: Services, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    return await services.controller.allocate_producer_ids(request)
