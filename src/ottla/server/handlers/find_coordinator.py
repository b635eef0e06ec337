"""FindCoordinator: who keeps a group's or a transaction's state: the leader of its partition.

v1 brought key types, v3 flexible fields, v4 several keys at once (KIP-699).
"""

from __future__ import annotations

from typing import Any

from ottla.coordinators.runtime import Runtime
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.kernel.slices import Slices
from ottla.metadata.image import NO_LEADER
from ottla.server.context import RequestContext
from ottla.server.internal_topics import coordinator_topic
from ottla.server.services import Services
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_SINCE = 4
GROUP, TRANSACTION = 0, 1


async def handle(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if context.api_version >= BATCHED_SINCE else [request.key]
    found: list[Coordinator] = []
    slices = Slices(services.clock)
    # Each once: a short question must not make a long answer.
    async for key in slices.of(await slices.distinct(keys)):
        try:
            found.append(await _find(services, key, request.key_type, context.listener_name))
        except KafkaError as error:
            found.append(_error(key, error))
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


async def _find(services: Services, key: str, key_type: int, listener_name: str) -> Coordinator:
    coordinator: Runtime[Any]
    if key_type == GROUP:
        topic = await coordinator_topic(services, CONSUMER_OFFSETS)
        coordinator = services.groups
    elif key_type == TRANSACTION:
        topic = await coordinator_topic(services, TRANSACTION_STATE)
        coordinator = services.transactions
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"key type {key_type} is not supported")
    number = coordinator.partition_of(key)
    leader = topic.partitions[number].leader
    if leader == services.broker_id and not coordinator.leads(number):
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"{topic.name}-{number} is offline: the broker's log says why",
        )
    endpoint = services.image.endpoint(leader, listener_name)
    if endpoint is None:
        why = (
            f"{topic.name}-{number} has no leader now"
            if leader == NO_LEADER
            else f"{topic.name}-{number} is led by broker {leader}, which cannot be reached by"
            f" listener {listener_name} now"
        )
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)


def _error(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=-1,
        host="",
        port=-1,
        error_code=error.code,
        error_message=error.message,
    )
