"""InitProducerId: an identity for a producer: idempotent, or with a transactional id. v3 lets a
producer keep its id and raise its epoch (KIP-360), v4 knows PRODUCER_FENCED, v6 is for two-phase
commit (KIP-939)."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(
    services: Services, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    return await services.transactions.init_producer_id(request, context.api_version)
