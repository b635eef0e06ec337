"""SyncGroup: the leader hands in the assignment, every member takes its part.

v3 brought static members, v5 the protocol's type and name.
"""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id, client_of
from ottla.server.services import Services
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_IS_NAMED_SINCE = 5


async def handle(
    services: Services, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse:
    client = client_of(context)
    try:
        _check_protocol_is_named(request, context.api_version)
        check_group_id(request.group_id)
        return await services.groups.write(
            request.group_id, lambda shard: shard.sync(request, client)
        )
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)


def _check_protocol_is_named(request: SyncGroupRequest, version: int) -> None:
    if version >= PROTOCOL_IS_NAMED_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol is named")
