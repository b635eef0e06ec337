"""LeaderAndIsr: which partitions this broker leads, and whom it follows in the others."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


async def handle(
    services: Services, request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse:
    return await services.state_changes.leader_and_isr(request)
