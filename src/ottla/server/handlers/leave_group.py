"""LeaveGroup: v3 takes several members at once, v5 a reason (KIP-800)."""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id, client_of
from ottla.server.services import Services
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


async def handle(
    services: Services, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse:
    client = client_of(context)
    try:
        check_group_id(request.group_id)
        return await services.groups.write(
            request.group_id, lambda shard: shard.leave(request, client)
        )
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
