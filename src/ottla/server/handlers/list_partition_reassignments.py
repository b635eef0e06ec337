"""ListPartitionReassignments: which partitions are being moved to other replicas (KIP-455). Clients
send it to the controller."""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


async def handle(
    services: Services, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    slices = Slices(services.clock)
    asked = None
    if request.topics is not None:
        asked = {
            TopicPartition(topic.name, number)
            for topic in request.topics
            async for number in slices.of(topic.partition_indexes)
        }
    try:
        found = await services.controller.list_reassignments(asked)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.message
        )
    topics: dict[str, OngoingTopicReassignment] = {}
    async for (topic_name, number), assignment in slices.of(found.items()):
        if topic_name not in topics:
            topics[topic_name] = OngoingTopicReassignment(name=topic_name)
        topics[topic_name].partitions.append(
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding_replicas),
                removing_replicas=list(assignment.removing_replicas),
            )
        )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))
