"""Heartbeat: a member is alive, and hears whether the group rebalances. v3 brought static
members."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id, client_of
from ottla.server.services import Services
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(
    services: Services, request: HeartbeatRequest, context: RequestContext
) -> HeartbeatResponse:
    client = client_of(context)
    try:
        check_group_id(request.group_id)
        return await services.groups.write(
            request.group_id, lambda shard: shard.heartbeat(request, client)
        )
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The group is being loaded: its members are alive as far as anyone knows.
            return HeartbeatResponse()
        return HeartbeatResponse(error_code=error.code)
