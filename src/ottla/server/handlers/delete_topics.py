"""DeleteTopics: by name, and since v6 by id too (KIP-516)."""

from __future__ import annotations

from collections import Counter

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BY_ID_SINCE = 6


async def handle(
    services: Services, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    states = request.topics
    if context.api_version < BY_ID_SINCE:
        states = [DeleteTopicState(name=name) for name in request.topic_names]
    counts = Counter((state.name, state.topic_id) for state in states)
    results: list[DeletableTopicResult] = []
    for state in states:
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        results.append(result)
        try:
            if counts[state.name, state.topic_id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The request names the topic twice.")
            await _delete(services, state, result)
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
    await services.changes_applied()
    return DeleteTopicsResponse(responses=results)


async def _delete(
    services: Services, state: DeleteTopicState, result: DeletableTopicResult
) -> None:
    if not services.config.delete_topic_enable:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED,
            "Topics cannot be deleted: delete.topic.enable is false on this broker.",
        )
    has_id = state.topic_id != NO_TOPIC_ID
    if has_id == (state.name is not None):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Name the topic either by its name or by its id."
        )
    deleted = await services.topics.delete(state.topic_id if state.name is None else state.name)
    result.name = deleted.name
    result.topic_id = deleted.id
