"""Requests that say they come from a replica: Fetch, ListOffsets and OffsetForLeaderEpoch. They see
and change more than those of consumers, so they are taken on the listener of brokers only."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.services import Services


def check_replica_listener(services: Services, replica_id: int, context: RequestContext) -> None:
    """Raises KafkaError for a replica on another listener. Consumers have an id below 0."""
    listener_name = services.config.inter_broker_listener_name
    if replica_id >= 0 and context.listener_name != listener_name:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"replicas ask on the listener {listener_name}"
        )
