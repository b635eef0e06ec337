"""GetReplicaLogInfo: where logs of this broker end, for the controller (KIP-966)."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
)


async def handle(
    services: Services, request: GetReplicaLogInfoRequest, context: RequestContext
) -> GetReplicaLogInfoResponse:
    return await services.log_ends.answer(request)
