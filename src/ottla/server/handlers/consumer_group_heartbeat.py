"""ConsumerGroupHeartbeat: the one request of the consumer protocol (KIP-848).

v1 lets members subscribe by a regular expression, which the broker resolves, and choose their own
ids.
"""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import client_of
from ottla.server.services import Services
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


async def handle(
    services: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    client = client_of(context)
    try:
        return await services.groups.write(
            request.group_id, lambda shard: shard.consumer_heartbeat(request, client)
        )
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
