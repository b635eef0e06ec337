"""StopReplica: which replicas this broker stops, and which of them it deletes."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


async def handle(
    services: Services, request: StopReplicaRequest, context: RequestContext
) -> StopReplicaResponse:
    return await services.state_changes.stop_replica(request)
