"""CreatePartitions: more of them, never fewer."""

from __future__ import annotations

from collections import Counter

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    services: Services, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    slices = Slices(services.clock)
    counts: Counter[str] = Counter()
    async for topic in slices.of(request.topics):
        counts[topic.name] += 1
    results: dict[str, CreatePartitionsTopicResult] = {}
    async for topic in slices.of(request.topics):
        results[topic.name] = result = CreatePartitionsTopicResult(name=topic.name)
        try:
            services.forwarding.check_controller()
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            assignments = topic.assignments
            await services.topics.create_partitions(
                topic.name,
                topic.count,
                None if assignments is None else [one.broker_ids for one in assignments],
                validate_only=request.validate_only,
            )
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
    await services.changes_applied()
    return CreatePartitionsResponse(results=list(results.values()))
