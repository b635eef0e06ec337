from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable

import pytest

from ottla.client.connection import ClientConnection
from ottla.kernel.transport import Part, Transport
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.network import SimulatedNetwork
from ottla.wire.codec import codec
from ottla.wire.header import append_response, decode_request_header, response_header_version
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.receiver import NotingReceiver

VERSION = 9
PORT = 9092


class ScriptedBroker(NotingReceiver):
    """Keeps the frames that come; a test answers them as it likes."""

    def requests(self) -> list[tuple[int, str | None]]:
        """(correlation id, client id) of each that came."""
        found: list[tuple[int, str | None]] = []
        rest = bytes(self.received)
        while rest:
            (size,) = struct.unpack_from(">i", rest)
            header, _ = decode_request_header(rest[4 : 4 + size])
            assert (header.api_key, header.api_version) == (MetadataRequest.API_KEY, VERSION)
            found.append((header.correlation_id, header.client_id))
            rest = rest[4 + size :]
        return found

    def answer(self, correlation_id: int, controller_id: int) -> None:
        parts: list[Part] = []
        append_response(
            correlation_id,
            response_header_version(MetadataRequest.API_KEY, VERSION),
            codec(MetadataResponse, VERSION).encode,
            MetadataResponse(controller_id=controller_id),
            parts,
        )
        self.transport.send(parts)


def run(scenario: Callable[[ClientConnection, ScriptedBroker], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        network = SimulatedNetwork(loop, random.Random(0))
        brokers: list[ScriptedBroker] = []

        def accept(transport: Transport) -> ScriptedBroker:
            brokers.append(ScriptedBroker(transport))
            return brokers[0]

        network.listen("localhost", PORT, accept).start()
        connection = await ClientConnection.open(network, "localhost", PORT, client_id="me")
        await scenario(connection, brokers[0])

    run_virtual(main)


def ask(connection: ClientConnection) -> asyncio.Task[MetadataResponse]:
    return asyncio.create_task(connection.call(MetadataRequest(), MetadataResponse, VERSION))


def test_requests_in_flight_together_get_their_own_answers() -> None:
    async def scenario(connection: ClientConnection, broker: ScriptedBroker) -> None:
        asked = [ask(connection) for _ in range(3)]
        await asyncio.sleep(1)
        assert [client_id for _, client_id in broker.requests()] == ["me"] * 3
        ids = [correlation_id for correlation_id, _ in broker.requests()]
        assert len(set(ids)) == 3
        for number, correlation_id in enumerate(ids):
            broker.answer(correlation_id, number)
        assert [(await task).controller_id for task in asked] == [0, 1, 2]

    run(scenario)


def test_who_gives_up_waiting_does_not_take_the_answer_of_the_next() -> None:
    async def scenario(connection: ClientConnection, broker: ScriptedBroker) -> None:
        first, second = ask(connection), ask(connection)
        await asyncio.sleep(1)
        first.cancel()
        for number, (correlation_id, _) in enumerate(broker.requests()):
            broker.answer(correlation_id, number)
        assert (await second).controller_id == 1

    run(scenario)


def test_a_lost_connection_is_heard_by_all_who_wait_and_all_who_come() -> None:
    async def scenario(connection: ClientConnection, broker: ScriptedBroker) -> None:
        asked = [ask(connection) for _ in range(2)]
        await asyncio.sleep(1)
        broker.transport.close()
        for task in asked:
            with pytest.raises(ConnectionError, match="localhost:9092 was lost"):
                await task
        with pytest.raises(ConnectionError, match="closed"):
            await connection.call(MetadataRequest(), MetadataResponse, VERSION)
        with pytest.raises(ConnectionError, match="closed"):
            connection.send_unanswered(MetadataRequest(), VERSION)

    run(scenario)


def test_closing_ends_both_sides() -> None:
    async def scenario(connection: ClientConnection, broker: ScriptedBroker) -> None:
        asked = ask(connection)
        await asyncio.sleep(1)
        connection.close()
        with pytest.raises(ConnectionError):
            await asked
        await asyncio.sleep(1)
        assert broker.is_lost

    run(scenario)


@pytest.mark.parametrize(
    ("nonsense", "reason"),
    [
        (struct.pack(">i", -1), "-1"),
        (struct.pack(">i", 0x7FFF_FFFF), "2147483647"),
        (struct.pack(">iib", 5, 99, 0), "response 99 came where 0 was due"),
        (struct.pack(">ib", 1, 0), "response header"),
        (struct.pack(">iib", 5, 0, 0), "MetadataResponse"),
    ],
    ids=["negative size", "too large", "another's answer", "short header", "short body"],
)
def test_nonsense_ends_the_connection_and_says_why(nonsense: bytes, reason: str) -> None:
    async def scenario(connection: ClientConnection, broker: ScriptedBroker) -> None:
        asked = [ask(connection) for _ in range(2)]
        await asyncio.sleep(1)
        broker.transport.send([nonsense])
        for task in asked:
            with pytest.raises(ConnectionError, match=reason):
                await task
        await asyncio.sleep(1)
        assert broker.is_lost

    run(scenario)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def scenario(connection: ClientConnection, broker: ScriptedBroker) -> None:
        broker.answer(0, 1)
        await asyncio.sleep(1)
        assert broker.is_lost

    run(scenario)


def test_nobody_there_is_an_error_of_opening() -> None:
    async def main(loop: VirtualLoop) -> None:
        network = SimulatedNetwork(loop, random.Random(0))
        with pytest.raises(ConnectionRefusedError):
            await ClientConnection.open(network, "localhost", PORT)

    run_virtual(main)
