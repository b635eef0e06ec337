from __future__ import annotations

import asyncio
import gc

import pytest

from ottla.controller.topic_planning import NewTopic
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.metadata.image import ControllerChanged
from ottla.server.context import RequestContext
from ottla.server.forwarding import Forwarding, is_passed_on
from ottla.testing.loop import VirtualClock
from ottla.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.schema import Response
from tests.support.other_broker import OTHER, add_other_broker, elect_other, image_of
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.unit.server.test_remote_markers import peers_of


def forwarding_of(broker: SimulatedBroker) -> Forwarding:
    return Forwarding(
        broker.machine.broker.broker_id,
        image_of(broker),
        peers_of(broker),
        VirtualClock(broker.loop),
    )


async def ask(broker: SimulatedBroker) -> int:
    answer = await forwarding_of(broker).ask(ListTransactionsRequest(), ListTransactionsResponse)
    return answer.throttle_time_ms


def test_who_the_controller_is() -> None:
    async def test(broker: SimulatedBroker) -> None:
        forwarding = forwarding_of(broker)
        assert forwarding.is_controller
        forwarding.check_controller()
        image_of(broker).apply(ControllerChanged(OTHER))
        assert not forwarding.is_controller
        with pytest.raises(KafkaError, match=r"This is broker 1\. The controller is broker 2\."):
            forwarding.check_controller()
        image_of(broker).apply(ControllerChanged(-1))
        with pytest.raises(KafkaError, match="has no controller now") as raised:
            forwarding.check_controller()
        assert raised.value.code is ErrorCode.NOT_CONTROLLER

    with_broker(test)


def test_a_request_goes_to_the_controller_that_is_elected_meanwhile() -> None:
    async def test(broker: SimulatedBroker) -> None:
        image_of(broker).apply(ControllerChanged(-1))
        asking = asyncio.ensure_future(ask(broker))
        await asyncio.sleep(1)
        image_of(broker).apply(ControllerChanged(7))  # It is gone again.
        await asyncio.sleep(1)
        cluster = add_other_broker(broker)
        answers = [None, ListTransactionsResponse(throttle_time_ms=5)]
        cluster.answers[ListTransactionsRequest] = lambda *_: answers.pop(0)
        image_of(broker).apply(ControllerChanged(OTHER))
        assert await asking == 5

    with_broker(test)


@pytest.mark.parametrize("controller_id", [-1, 7])
def test_without_a_controller_a_request_is_given_up_after_a_while(controller_id: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        image_of(broker).apply(ControllerChanged(controller_id))
        began_s = broker.loop.now_s
        with pytest.raises(KafkaError) as raised:
            await ask(broker)
        assert raised.value.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE)
        assert 9 < broker.loop.now_s - began_s < 12

    with_broker(test)


def test_of_many_who_want_a_topic_the_first_asks_for_all() -> None:
    async def test(broker: SimulatedBroker) -> None:
        cluster = elect_other(broker)
        codes = [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]

        def answer(node_id: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
            result = CreatableTopicResult(
                name=request.topics[0].name, error_code=codes.pop(0), error_message="so"
            )
            return CreateTopicsResponse(topics=[result])

        cluster.answers[CreateTopicsRequest] = answer
        forwarding = forwarding_of(broker)
        topic = NewTopic("t", 3, 2, config={"retention.ms": "5"})
        await asyncio.gather(*(forwarding.create_topic(topic) for _ in range(5)))
        ((_, asked, _),) = cluster.asked
        assert isinstance(asked, CreateTopicsRequest)
        (sent,) = asked.topics
        assert (sent.name, sent.num_partitions, sent.replication_factor) == ("t", 3, 2)
        assert [(one.name, one.value) for one in sent.configs] == [("retention.ms", "5")]
        with pytest.raises(KafkaError, match="so") as raised:
            await forwarding.create_topic(topic)
        assert raised.value.code is ErrorCode.INVALID_CONFIG

    with_broker(test)


def test_a_refusal_that_nobody_waits_for_any_more_is_no_error() -> None:
    """Clients hang up while the controller is asked."""

    async def test(broker: SimulatedBroker) -> None:
        cluster = elect_other(broker)
        refused: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        cluster.answers[CreateTopicsRequest] = lambda _, request: refused
        unretrieved: list[object] = []
        broker.loop.set_exception_handler(lambda _, context: unretrieved.append(context))
        asked = asyncio.ensure_future(forwarding_of(broker).create_topic(NewTopic("t", 3, 2)))
        await asyncio.sleep(1)
        asked.cancel()
        result = CreatableTopicResult(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
        refused.set_result(CreateTopicsResponse(topics=[result]))
        await asyncio.sleep(1)
        del asked
        gc.collect()
        assert unretrieved == []

    with_broker(test)


@pytest.mark.parametrize(
    ("client_id", "is_one"),
    [
        ("broker-2-forwarding", True),
        ("broker-2-markers", False),
        ("admin-forwarding", False),
        ("", False),
        (None, False),
    ],
)
def test_what_was_passed_on_is_known_by_its_client_id(client_id: str | None, is_one: bool) -> None:
    assert is_passed_on(RequestContext(0, client_id, "PLAINTEXT", "host")) == is_one
