"""ControlledShutdown: a broker that is about to stop has the controller move its leaders away."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


async def handle(
    services: Services, request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    return await services.controller.controlled_shutdown(request)
