"""ElectLeaders: makes the preferred replicas of partitions their leaders, or any that are alive. v1
brought the second kind, and an error of the whole request (KIP-460).

Clients send it to the controller, but do not look for that again where another broker answers
NOT_CONTROLLER, so another broker passes it on.
"""

from __future__ import annotations

from ottla.controller.leader_elections import ElectionType, Results
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.forwarding import is_passed_on
from ottla.server.services import Services
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

ERROR_SINCE = 1


async def handle(
    services: Services, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    slices = Slices(services.clock)
    try:
        if not services.forwarding.is_controller and not is_passed_on(context):
            return await services.forwarding.ask(request, ElectLeadersResponse)
        asked = await _asked(request, slices)
        results = await services.controller.elect_leaders(_kind(request.election_type), asked)
        await services.controller.own_broker_told()
    except KafkaError as error:
        return await _refused(request, error, context.api_version, slices)
    return ElectLeadersResponse(replica_election_results=await _by_topic(results, slices))


def _kind(election_type: int) -> ElectionType:
    try:
        return ElectionType(election_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}"
        ) from None


async def _asked(request: ElectLeadersRequest, slices: Slices) -> dict[TopicPartition, None] | None:
    """Each once, in the order of the request. None for all."""
    if request.topic_partitions is None:
        return None
    return {
        TopicPartition(topic.topic, number): None
        for topic in request.topic_partitions
        async for number in slices.of(topic.partitions)
    }


async def _refused(
    request: ElectLeadersRequest, error: KafkaError, version: int, slices: Slices
) -> ElectLeadersResponse:
    """As a whole, and, for versions that cannot say so, each partition."""
    asked = await _asked(request, slices) or {}
    results: Results = dict.fromkeys(asked, error)
    return ElectLeadersResponse(
        error_code=error.code if version >= ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=await _by_topic(results, slices),
    )


async def _by_topic(results: Results, slices: Slices) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    async for (topic, number), error in slices.of(results.items()):
        if topic not in topics:
            topics[topic] = ReplicaElectionResult(topic=topic)
        result = PartitionResult(partition_id=number, error_message=None)
        if error is not None:
            result.error_code = error.code
            result.error_message = error.message
        topics[topic].partition_result.append(result)
    return list(topics.values())
