from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.coordination.znodes import Endpoint
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.peers import IN_FLIGHT_MAX, Peers
from ottla.metadata.image import BrokerImage, BrokersChanged, ClusterImage
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.wire.api import ApiKey
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.schema import Response
from tests.support.scripted_cluster import FIRST_PORT, ScriptedCluster

OWN, OTHER, THIRD = BrokerId(9), BrokerId(1), BrokerId(2)
LISTENER = "REPLICATION"
TIMEOUT_MS = 30_000


def broker_image(broker_id: BrokerId, epoch: int = 1, port: int | None = None) -> BrokerImage:
    port = FIRST_PORT + broker_id if port is None else port
    endpoints = {
        "CLIENTS": Endpoint("CLIENTS", "PLAINTEXT", "localhost", 1),
        LISTENER: Endpoint(LISTENER, "PLAINTEXT", "localhost", port),
    }
    return BrokerImage(broker_id, epoch, endpoints)


class Stage:
    """Brokers 1 and 2, scripted, and the peers of broker 9."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.cluster = ScriptedCluster(loop)
        self.cluster.answers[ListTransactionsRequest] = lambda node_id, request: (
            ListTransactionsResponse(throttle_time_ms=node_id)
        )
        self.image = ClusterImage()
        self.alive(broker_image(OTHER), broker_image(THIRD))
        self.peers = Peers(
            OWN,
            self.image,
            self.cluster.network,
            clock=VirtualClock(loop),
            listener_name=LISTENER,
            request_timeout_ms=TIMEOUT_MS,
        )

    def alive(self, *brokers: BrokerImage) -> None:
        self.image.apply(BrokersChanged({broker.id: broker for broker in brokers}))

    async def ask(self, broker_id: BrokerId = OTHER, purpose: str = "test") -> int:
        response = await self.peers.ask(
            broker_id, ListTransactionsRequest(), ListTransactionsResponse, purpose=purpose
        )
        return response.throttle_time_ms

    async def refused(self, broker_id: BrokerId = OTHER) -> KafkaError:
        with pytest.raises(KafkaError) as raised:
            await self.ask(broker_id)
        return raised.value

    def hold(self) -> list[asyncio.Future[Response]]:
        """From now on answers wait for the test."""
        held: list[asyncio.Future[Response]] = []

        def answer(node_id: int, request: ListTransactionsRequest) -> asyncio.Future[Response]:
            held.append(self.loop.create_future())
            return held[-1]

        self.cluster.answers[ListTransactionsRequest] = answer
        return held

    @property
    def connected(self) -> list[int]:
        return [connection.node_id for connection in self.cluster.connections]


def run(scenario: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        await scenario(stage)
        stage.peers.close()

    run_virtual(main)


def test_one_connection_serves_all_requests_of_one_purpose() -> None:
    async def scenario(stage: Stage) -> None:
        assert await asyncio.gather(*(stage.ask() for _ in range(3))) == [OTHER] * 3
        assert await stage.ask(THIRD) == THIRD
        assert stage.connected == [OTHER, THIRD]

        held = stage.hold()
        waiting = asyncio.ensure_future(stage.ask())
        await asyncio.sleep(1)
        stage.cluster.answers[ListTransactionsRequest] = lambda *_: ListTransactionsResponse()
        await stage.ask(purpose="another")  # It does not wait behind the first.
        assert stage.connected == [OTHER, THIRD, OTHER]
        held[0].set_result(ListTransactionsResponse(throttle_time_ms=5))
        assert await waiting == 5

    run(scenario)


def test_the_newest_version_that_both_know_is_spoken() -> None:
    async def scenario(stage: Stage) -> None:
        stage.cluster.versions[ApiKey.LIST_TRANSACTIONS] = range(2)
        await stage.ask()
        assert stage.cluster.asked[0][2] == 1
        with pytest.raises(KafkaError, match="transactional_id_pattern"):
            await stage.peers.ask(
                OTHER,
                ListTransactionsRequest(transactional_id_pattern="a"),
                ListTransactionsResponse,
                purpose="test",
            )
        assert await stage.ask() == OTHER
        assert stage.connected == [OTHER]

    run(scenario)


def test_an_api_that_is_listed_nowhere_is_asked_for_in_a_version_that_is_given() -> None:
    async def scenario(stage: Stage) -> None:
        del stage.cluster.versions[ApiKey.LIST_TRANSACTIONS]
        response = await stage.peers.ask(
            OTHER, ListTransactionsRequest(), ListTransactionsResponse, purpose="test", version=1
        )
        assert response.throttle_time_ms == OTHER
        assert stage.cluster.asked[0][2] == 1

    run(scenario)


def test_a_connection_that_was_lost_is_opened_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask()
        answers = stage.cluster.answers
        kept, answers[ListTransactionsRequest] = (
            answers[ListTransactionsRequest],
            lambda node_id, request: None,
        )
        assert (await stage.refused()).code is ErrorCode.NETWORK_EXCEPTION
        answers[ListTransactionsRequest] = kept
        assert await stage.ask() == OTHER
        assert stage.connected == [OTHER, OTHER]

    run(scenario)


def test_a_broker_that_is_not_alive_is_not_asked() -> None:
    async def scenario(stage: Stage) -> None:
        assert (await stage.refused(BrokerId(7))).code is ErrorCode.BROKER_NOT_AVAILABLE
        stage.alive(BrokerImage(OTHER, 1, {}))
        error = await stage.refused()
        assert error.code is ErrorCode.BROKER_NOT_AVAILABLE
        assert "no listener 'REPLICATION'" in str(error)
        assert stage.connected == []

    run(scenario)


def test_a_broker_that_refuses_connections_is_tried_again_after_a_pause() -> None:
    async def scenario(stage: Stage) -> None:
        stage.alive(broker_image(OTHER, port=FIRST_PORT + 7))
        for pause_s in (0.05, 0.1, 0.2):
            error = await stage.refused()
            assert error.code is ErrorCode.NETWORK_EXCEPTION
            assert "Broker 1 cannot be reached: nobody listens on port 9007" in str(error)
            await asyncio.sleep(pause_s - 0.01)
            stage.cluster.listen(7)
            assert (await stage.refused()).code is ErrorCode.NETWORK_EXCEPTION, "too soon"
            stage.cluster.stop(7)
            await asyncio.sleep(0.02)
        stage.cluster.listen(7)
        await asyncio.sleep(0.4)
        assert await stage.ask() == 7
        stage.cluster.connections[-1].transport.close()
        stage.cluster.stop(7)
        await asyncio.sleep(1)
        await stage.refused()
        stage.cluster.listen(7)
        await asyncio.sleep(0.05)
        assert await stage.ask() == 7, "the pause was as short as at first"

    run(scenario)


def test_who_has_no_answer_in_time_gets_an_error_and_the_connection_is_given_up() -> None:
    async def scenario(stage: Stage) -> None:
        stage.hold()
        began_s = stage.loop.now_s
        first = asyncio.ensure_future(stage.refused())
        await asyncio.sleep(10)
        second = asyncio.ensure_future(stage.refused())
        error = await first
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
        assert str(error) == "Broker 1 has not answered LIST_TRANSACTIONS within 30 s."
        assert stage.loop.now_s - began_s == pytest.approx(30)
        # What lies behind it on the connection would wait as long.
        assert (await second).code is ErrorCode.NETWORK_EXCEPTION
        stage.cluster.answers[ListTransactionsRequest] = lambda *_: ListTransactionsResponse()
        await stage.ask()
        assert stage.connected == [OTHER, OTHER]

    run(scenario)


def test_a_broker_that_accepts_and_says_nothing_is_given_up_too() -> None:
    async def scenario(stage: Stage) -> None:
        silence: asyncio.Future[Response] = stage.loop.create_future()
        stage.cluster.silence_of_versions = silence
        assert (await stage.refused()).code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(KafkaError) as raised:
            await stage.peers.open(THIRD, "fetcher")
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        stage.cluster.silence_of_versions = None
        assert await stage.ask() == OTHER

    run(scenario)


def test_what_becomes_of_a_request_that_was_given_up_is_no_error_of_anybody() -> None:
    """It waits for a connection that is given up with it, and fails of that."""

    async def scenario(stage: Stage) -> None:
        unhandled: list[str] = []
        stage.loop.set_exception_handler(lambda _, what: unhandled.append(str(what)))
        stage.cluster.silence_of_versions = stage.loop.create_future()
        waiting = asyncio.ensure_future(stage.ask())
        await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
        waiting.exception()
        del waiting
        gc.collect()
        assert unhandled == []

    run(scenario)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_connection_ends_with_the_registration_of_its_broker(is_gone: bool) -> None:
    async def scenario(stage: Stage) -> None:
        stage.hold()
        waiting = [asyncio.ensure_future(stage.refused(each)) for each in (OTHER, THIRD)]
        await asyncio.sleep(1)
        stage.alive(broker_image(THIRD), *(() if is_gone else (broker_image(OTHER, epoch=2),)))
        assert (await waiting[0]).code is ErrorCode.NETWORK_EXCEPTION
        assert stage.loop.now_s < 2
        stage.cluster.answers[ListTransactionsRequest] = lambda *_: ListTransactionsResponse()
        if is_gone:
            assert (await stage.refused()).code is ErrorCode.BROKER_NOT_AVAILABLE
        else:
            await stage.ask()
            assert stage.connected == [OTHER, THIRD, OTHER]
        assert not waiting[1].done(), "the other broker is as it was"
        assert (await waiting[1]).code is ErrorCode.REQUEST_TIMED_OUT

    run(scenario)


def test_a_connection_that_is_being_opened_ends_so_too() -> None:
    async def scenario(stage: Stage) -> None:
        stage.cluster.silence_of_versions = stage.loop.create_future()
        waiting = asyncio.ensure_future(stage.refused())
        await asyncio.sleep(1)
        stage.alive(broker_image(THIRD))
        assert (await waiting).code is ErrorCode.NETWORK_EXCEPTION
        assert stage.loop.now_s < 2

    run(scenario)


def test_no_more_requests_are_on_their_way_than_a_broker_reads() -> None:
    async def scenario(stage: Stage) -> None:
        held = stage.hold()
        asked = [asyncio.ensure_future(stage.ask()) for _ in range(IN_FLIGHT_MAX + 3)]
        await asyncio.sleep(5)
        assert len(held) == IN_FLIGHT_MAX
        for each in asked[:2]:
            each.cancel()  # Who does not want to know any more makes room as well.
        await asyncio.sleep(5)
        assert len(held) == IN_FLIGHT_MAX + 2
        held[0].set_result(ListTransactionsResponse())
        held[1].set_result(ListTransactionsResponse())
        for number in range(2, IN_FLIGHT_MAX + 3):
            await asyncio.sleep(0.1)
            held[number].set_result(ListTransactionsResponse(throttle_time_ms=number))
        assert await asyncio.gather(*asked[2:]) == list(range(2, IN_FLIGHT_MAX + 3))

    run(scenario)


def test_a_connection_of_ones_own() -> None:
    async def scenario(stage: Stage) -> None:
        connection = await stage.peers.open(OTHER, "fetcher")
        assert connection.version_of(ApiKey.LIST_TRANSACTIONS) == 2
        for version in (None, 1):
            answer = await connection.call(
                ListTransactionsRequest(), ListTransactionsResponse, version
            )
            assert answer.throttle_time_ms == OTHER
        assert [version for _, _, version in stage.cluster.asked] == [2, 1]
        assert not connection.is_lost
        connection.close()
        await asyncio.sleep(1)
        assert connection.is_lost
        with pytest.raises(KafkaError) as raised:
            await stage.peers.open(BrokerId(7), "fetcher")
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE

    run(scenario)


def test_nobody_is_asked_once_the_broker_stops() -> None:
    async def scenario(stage: Stage) -> None:
        stage.hold()
        waiting = asyncio.ensure_future(stage.refused())
        await asyncio.sleep(1)
        stage.peers.close()
        assert (await waiting).code is ErrorCode.NETWORK_EXCEPTION
        assert (await stage.refused()).code is ErrorCode.BROKER_NOT_AVAILABLE

    run(scenario)
