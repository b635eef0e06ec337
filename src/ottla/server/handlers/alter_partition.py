"""AlterPartition: the leader of partitions asks the controller for another ISR (KIP-497). v2 has
topic ids, v3 the epochs of the brokers in the ISR (KIP-903)."""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(
    services: Services, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    return await services.controller.alter_partition(request, context.api_version)
