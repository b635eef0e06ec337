"""JoinGroup: a member enters its group and waits for the others.

v1 brought a rebalance time-out of its own, v4 demands a member id (KIP-394), v5 static members
(KIP-345), v7 the protocol's type, v8 a reason (KIP-800), v9 lets a leader skip the assignment.
"""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id, client_of
from ottla.server.services import Services
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

PROTOCOL_IS_NULLABLE_SINCE = 7

PROTOCOLS_MAX = 100
"""Of one member. They are kept while it is one, and every rebalance goes through those of all
members at once. Clients have one to three; Kafka has no limit but the size of a request."""


async def handle(
    services: Services, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse:
    client = client_of(context)
    try:
        check_group_id(request.group_id)
        if len(request.protocols) > PROTOCOLS_MAX:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"a member has at most {PROTOCOLS_MAX} protocols",
            )
        return await services.groups.write(
            request.group_id, lambda shard: shard.join(request, client)
        )
    except KafkaError as error:
        return JoinGroupResponse(
            error_code=error.code,
            member_id=request.member_id,
            protocol_name=None if client.api_version >= PROTOCOL_IS_NULLABLE_SINCE else "",
        )
