"""UpdateMetadata: the brokers that are alive, and who leads which partition."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(
    services: Services, request: UpdateMetadataRequest, context: RequestContext
) -> UpdateMetadataResponse:
    return await services.state_changes.update_metadata(request)
