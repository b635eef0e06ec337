"""FindCoordinator: who keeps a group's or a transaction's state. With one broker, it does.

v1 brought key types, v3 flexible fields, v4 several keys at once (KIP-699).
"""

from __future__ import annotations

from ottla.coordination.znodes import Endpoint
from ottla.kernel.errors import ErrorCode
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_SINCE = 4
GROUP, TRANSACTION = 0, 1


def handle(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if context.api_version >= BATCHED_SINCE else [request.key]
    endpoint = services.image.brokers[services.broker_id].endpoints.get(context.listener_name)
    found = [_find(services.broker_id, endpoint, key, request.key_type) for key in keys]
    if context.api_version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(broker_id: int, endpoint: Endpoint | None, key: str, key_type: int) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION):
        return _error(key, ErrorCode.INVALID_REQUEST, f"key type {key_type} is not supported")
    if endpoint is None:
        return _error(
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not on this listener"
        )
    return Coordinator(key=key, node_id=broker_id, host=endpoint.host, port=endpoint.port)


def _error(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )
