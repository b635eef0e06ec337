"""SyncGroup: the leader hands in the assignment, every member takes its part.

v3 brought static members, v5 the protocol's type and name.
"""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id, client_of
from ottla.server.services import Services
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


async def handle(
    services: Services, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse:
    client = client_of(context)
    try:
        check_group_id(request.group_id)
        return await services.groups.write(
            request.group_id, lambda shard: shard.sync(request, client)
        )
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
