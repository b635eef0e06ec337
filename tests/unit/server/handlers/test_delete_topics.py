from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.support.other_broker import elect_other
from tests.support.simulated_broker import SimulatedBroker, with_broker


async def delete(broker: SimulatedBroker, *states: DeleteTopicState) -> list[DeletableTopicResult]:
    response = await broker.call(DeleteTopicsRequest(topics=list(states)), DeleteTopicsResponse)
    return response.responses


@pytest.mark.parametrize("version", [1, 4, 5, 6])
def test_a_deleted_topic_is_gone_at_once(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        await broker.produce("t", b"v")
        request = DeleteTopicsRequest(topic_names=["t", "missing"])
        if version >= 6:
            states = [DeleteTopicState(name="t"), DeleteTopicState(name="missing")]
            request = DeleteTopicsRequest(topics=states)
        response = await broker.call(request, DeleteTopicsResponse, version)
        deleted, missing = response.responses
        assert (deleted.name, deleted.error_code) == ("t", ErrorCode.NONE)
        assert deleted.topic_id == (topic_id if version >= 6 else NO_TOPIC_ID)
        assert (missing.name, missing.error_code) == (
            "missing",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        assert bool(missing.error_message) == (version >= 5)
        answer = await broker.produce("t", b"v")
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test)


def test_a_topic_that_is_made_again_is_another_and_empty() -> None:
    async def test(broker: SimulatedBroker) -> None:
        old_id = await broker.create_topic("t")
        await broker.produce("t", b"a", b"b")
        await delete(broker, DeleteTopicState(name="t"))
        assert await broker.create_topic("t") != old_id
        assert (await broker.produce("t", b"c")).base_offset == 0

    with_broker(test)


def test_topics_are_found_by_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        unknown_id = TopicId(b"x" * 16)
        deleted, unknown = await delete(
            broker, DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=unknown_id)
        )
        assert (deleted.name, deleted.topic_id, deleted.error_code) == ("t", topic_id, 0)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (unknown.name, unknown.topic_id) == (None, unknown_id)

    with_broker(test)


def test_a_topic_must_be_named_in_one_way_and_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        state = DeleteTopicState(name="t")
        for states in (
            [DeleteTopicState(name="t", topic_id=topic_id)],
            [DeleteTopicState()],
            [state, state],
        ):
            for result in await delete(broker, *states):
                assert result.error_code == ErrorCode.INVALID_REQUEST
        assert (await broker.produce("t", b"still there")).error_code == ErrorCode.NONE

    with_broker(test)


def test_the_broker_may_forbid_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        (result,) = await delete(broker, DeleteTopicState(name="t"))
        assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert (await broker.produce("t", b"still there")).error_code == ErrorCode.NONE

    with_broker(test, delete_topic_enable="false")


def test_a_broker_that_is_not_the_controller_says_so() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        elect_other(broker)
        (result,) = await delete(broker, DeleteTopicState(name="t"))
        assert (result.name, result.error_code) == ("t", ErrorCode.NOT_CONTROLLER)
        assert (await broker.produce("t", b"v")).error_code == 0

    with_broker(test)
