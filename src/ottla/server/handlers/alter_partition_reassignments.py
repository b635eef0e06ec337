"""AlterPartitionReassignments: moves partitions to other replicas, or cancels that (KIP-455). v1
can refuse to change the replication factor (KIP-860). Clients send it to the controller."""

from __future__ import annotations

from ottla.controller.reassignment import Results
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    services: Services, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    slices = Slices(services.clock)
    wanted = {
        TopicPartition(topic.name, asked.partition_index): asked.replicas
        for topic in request.topics
        async for asked in slices.of(topic.partitions)
    }
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    results: Results
    try:
        results = await services.controller.alter_reassignments(
            wanted, allows_factor_change=request.allow_replication_factor_change
        )
        await services.controller.own_broker_told()
    except KafkaError as error:
        response.error_code = error.code
        response.error_message = error.message
        # Java's client looks at the partitions here, too, but for NOT_CONTROLLER.
        results = dict.fromkeys(wanted, error)
    response.responses = await _by_topic(results, slices)
    return response


async def _by_topic(results: Results, slices: Slices) -> list[ReassignableTopicResponse]:
    topics: dict[str, ReassignableTopicResponse] = {}
    async for (topic, number), error in slices.of(results.items()):
        if topic not in topics:
            topics[topic] = ReassignableTopicResponse(name=topic)
        result = ReassignablePartitionResponse(partition_index=number, error_message=None)
        if error is not None:
            result.error_code = error.code
            result.error_message = error.message
        topics[topic].partitions.append(result)
    return list(topics.values())
