from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional


async def init(
    broker: SimulatedBroker, request: InitProducerIdRequest | None = None, version: int = -1
) -> InitProducerIdResponse:
    request = request or InitProducerIdRequest(transactional_id=None)
    return await broker.call(request, InitProducerIdResponse, version)


@pytest.mark.parametrize("version", [0, 2, 5])
def test_no_id_is_given_twice(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        seen: set[int] = set()
        for _ in range(3):
            for _ in range(3):
                response = await init(broker, version=version)
                assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, 0)
                assert response.producer_id >= 0
                assert response.producer_id not in seen
                seen.add(response.producer_id)
            await broker.restart()

    with_broker(test)


def test_a_producer_that_had_an_id_gets_another() -> None:
    async def test(broker: SimulatedBroker) -> None:
        first = await init(broker)
        again = InitProducerIdRequest(
            transactional_id=None, producer_id=first.producer_id, producer_epoch=0
        )
        second = await init(broker, again)
        assert (second.error_code, second.producer_epoch) == (ErrorCode.NONE, 0)
        assert second.producer_id != first.producer_id

    with_broker(test)


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch"), [(None, 5, -1), (None, -1, 0), ("", -1, -1)]
)
def test_half_an_identity_is_refused(
    transactional_id: str | None, producer_id: int, epoch: int
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch
        )
        response = await init(broker, request)
        assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)

    with_broker(test)


def test_a_transactional_id_keeps_its_producer_id_and_raises_its_epoch() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = Transactional(broker)
        assert await producer.init() is ErrorCode.NONE
        first = producer.producer
        assert await producer.init() is ErrorCode.NONE
        assert producer.producer == (first.producer_id, first.producer_epoch + 1)
        other = Transactional(broker, "other")
        assert await other.init() is ErrorCode.NONE
        assert other.producer.producer_id != first.producer_id

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)],
)
def test_a_fenced_producer_hears_of_it_as_its_version_can(version: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        zombie = Transactional(broker)
        await zombie.init()
        for _ in range(2):  # One epoch behind could be a repeated request.
            await Transactional(broker).init()
        request = InitProducerIdRequest(
            transactional_id=zombie.transactional_id,
            transaction_timeout_ms=1000,
            producer_id=zombie.producer.producer_id,
            producer_epoch=zombie.producer.producer_epoch,
        )
        assert (await init(broker, request, version)).error_code == code

    with_broker(test)


def test_while_the_store_does_not_answer_clients_are_told_to_try_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        broker.ensemble.disconnect(broker.machine.store)
        response = await init(broker)
        assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (response.producer_id, response.producer_epoch) == (-1, -1)
        broker.ensemble.reconnect(broker.machine.store)
        while (await init(broker)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(1)
        assert (await init(broker)).error_code == ErrorCode.NONE

    with_broker(test)
