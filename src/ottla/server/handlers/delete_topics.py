"""DeleteTopics: by name, and since v6 by id too (KIP-516)."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.kernel.slices import Slices
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
    slices = Slices(services.clock)
    states = request.topics
    if context.api_version < BY_ID_SINCE:
        states = [DeleteTopicState(name=name) async for name in slices.of(request.topic_names)]
    results: list[DeletableTopicResult] = []
    async for same in slices.of(await _grouped(services, states, slices)):
        result = DeletableTopicResult(
            name=next((state.name for state in same if state.name is not None), None),
            topic_id=max(state.topic_id for state in same),
        )
        results.append(result)
        try:
            services.forwarding.check_controller()
            if len(same) > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            await _delete(services, same[0], result)
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
    await services.changes_applied()
    return DeleteTopicsResponse(responses=results)


async def _grouped(
    services: Services, states: list[DeleteTopicState], slices: Slices
) -> list[list[DeleteTopicState]]:
    """Those that mean one topic together, also where one has its name and another its id."""
    groups: dict[object, list[DeleteTopicState]] = {}
    async for state in slices.of(states):
        topic = services.image.topics_by_id.get(state.topic_id) if state.name is None else None
        key = topic.name if topic else state.name
        if state.topic_id != NO_TOPIC_ID and topic is None:
            key = None
        groups.setdefault(key if key is not None else (state.name, state.topic_id), []).append(
            state
        )
    return list(groups.values())


async def _delete(
    services: Services, state: DeleteTopicState, result: DeletableTopicResult
) -> None:
    if not services.config.delete_topic_enable:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED,
            "Topics cannot be deleted: delete.topic.enable is false on this broker.",
        )
    has_id = state.topic_id != NO_TOPIC_ID
    if has_id and state.name is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if not has_id and state.name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    deleted = await services.topics.delete(state.topic_id if state.name is None else state.name)
    result.name = deleted.name
    result.topic_id = deleted.id
