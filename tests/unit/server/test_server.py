from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.config.broker import BrokerConfig
from ottla.kernel.transport import Transport
from ottla.server.dispatch import Dispatcher, Reply
from ottla.server.server import OTHER_FRAME_BYTES_MAX, PACE_S, Server
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.network import SimulatedNetwork
from tests.support.receiver import NotingReceiver

PRODUCE, OTHER = b"\0\0", b"\0\7"


class Echo(Dispatcher):
    """Answers with who asked where, or, to `later`, when it is told to."""

    def __init__(self) -> None:
        self.later: list[asyncio.Future[Reply | None]] = []

    def dispatch(
        self, frame: memoryview, listener_name: str, peer_host: str
    ) -> Reply | asyncio.Future[Reply | None] | None:
        if bytes(frame[2:]) == b"later":
            self.later.append(asyncio.get_running_loop().create_future())
            return self.later[-1]
        return [f"{listener_name} {peer_host} {len(frame)};".encode()]


class Client(NotingReceiver):
    async def send(self, frame: bytes) -> None:
        self.transport.send([len(frame).to_bytes(4, "big") + frame])
        await asyncio.sleep(1)


class Harness:
    def __init__(self, loop: VirtualLoop, settings: dict[str, str]) -> None:
        self.network = SimulatedNetwork(loop, random.Random(0), chunk_bytes_max=1 << 20)
        self.echo = Echo()
        self.config = BrokerConfig(settings)
        self.server = Server(self.network, self.echo, lambda: self.config, clock=VirtualClock(loop))
        self.port = self.server.listen("IN", "localhost", 0)

    async def connect(self, port: int = 0) -> Client:
        clients: list[Client] = []

        def accept(transport: Transport) -> Client:
            clients.append(Client(transport))
            return clients[0]

        await self.network.connect("localhost", port or self.port, accept)
        await asyncio.sleep(0.1)
        return clients[0]


def run(scenario: Callable[[Harness], Awaitable[None]], **settings: str) -> None:
    async def main(loop: VirtualLoop) -> None:
        harness = Harness(loop, {key.replace("_", "."): value for key, value in settings.items()})
        harness.server.start()
        await scenario(harness)
        harness.server.close()

    run_virtual(main)


def test_requests_know_through_which_listener_they_came() -> None:
    async def main(loop: VirtualLoop) -> None:
        harness = Harness(loop, {})
        other_port = harness.server.listen("OUT", "localhost", 0)
        with pytest.raises(ConnectionRefusedError):
            await harness.connect()
        harness.server.start()
        for port, name in ((harness.port, "IN"), (other_port, "OUT")):
            client = await harness.connect(port)
            await client.send(OTHER)
            assert client.received == f"{name} client 2;".encode()

    run_virtual(main)


def test_connections_over_the_limit_are_closed_until_one_leaves() -> None:
    async def scenario(harness: Harness) -> None:
        clients = [await harness.connect() for _ in range(3)]
        assert [client.is_lost for client in clients] == [False, False, True]
        assert harness.server.connection_count == 2
        clients[0].transport.close()
        await asyncio.sleep(1)
        again = await harness.connect()
        await again.send(OTHER)
        assert again.received
        await clients[1].send(OTHER)
        assert clients[1].received

    run(scenario, max_connections="2")


def test_each_address_has_its_own_limit() -> None:
    async def main(loop: VirtualLoop) -> None:
        network = SimulatedNetwork(loop, random.Random(0))
        config = BrokerConfig({"max.connections.per.ip": "2"})
        server = Server(network, Echo(), lambda: config, clock=VirtualClock(loop))
        port = server.listen("IN", "localhost", 0)
        server.start()

        async def connect_from(host: str) -> Transport:
            transport = await network.host(host).connect("localhost", port, Client)
            await asyncio.sleep(0.1)
            return transport

        first, *_ = [await connect_from("10.0.0.1") for _ in range(4)]
        assert server.connection_count == 2
        await connect_from("10.0.0.2")
        assert server.connection_count == 3
        first.close()
        await asyncio.sleep(0.1)
        for _ in range(3):
            await connect_from("10.0.0.1")
        assert server.connection_count == 3
        config = BrokerConfig({"max.connections.per.ip": "3"})
        for _ in range(3):
            await connect_from("10.0.0.2")
        assert server.connection_count == 5
        server.close()

    run_virtual(main)


def test_the_number_of_connections_may_be_changed_while_it_runs() -> None:
    async def scenario(harness: Harness) -> None:
        for limit in (1, 2, 3):
            harness.config = BrokerConfig({"max.connections": str(limit)})
            for _ in range(3):
                await harness.connect()
            assert harness.server.connection_count == limit

    run(scenario)


def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    async def scenario(harness: Harness) -> None:
        idle, busy, waiting = [await harness.connect() for _ in range(3)]
        await waiting.send(OTHER + b"later")
        for _ in range(20):
            await busy.send(OTHER)
        assert (idle.is_lost, busy.is_lost, waiting.is_lost) == (True, False, False)
        harness.echo.later[0].set_result([b"answer"])
        await asyncio.sleep(1)
        assert waiting.received == b"answer"
        await asyncio.sleep(20)
        assert (busy.is_lost, waiting.is_lost) == (True, True)

    run(scenario, connections_max_idle_ms="10000")


def test_a_connection_has_at_least_the_time_that_it_is_given() -> None:
    async def scenario(harness: Harness) -> None:
        client = await harness.connect()
        await asyncio.sleep(9.5)
        assert not client.is_lost

    run(scenario, connections_max_idle_ms="10000")


def test_without_a_limit_idle_connections_stay() -> None:
    async def scenario(harness: Harness) -> None:
        client = await harness.connect()
        await asyncio.sleep(86_400)
        assert not client.is_lost

    run(scenario, connections_max_idle_ms="-1")


def test_frames_over_the_limit_close_the_connection() -> None:
    async def scenario(harness: Harness) -> None:
        for frame, is_too_large in (
            (PRODUCE + bytes(998), False),
            (PRODUCE + bytes(999), True),
            (OTHER + bytes(999), True),
        ):
            client = await harness.connect()
            await client.send(frame)
            assert client.is_lost == is_too_large
            assert bool(client.received) != is_too_large

    run(scenario, socket_request_max_bytes="1000")


def test_only_produce_may_be_really_large() -> None:
    async def scenario(harness: Harness) -> None:
        for api, is_too_large in ((PRODUCE, False), (OTHER, True)):
            client = await harness.connect()
            await client.send(api + bytes(OTHER_FRAME_BYTES_MAX))
            assert client.is_lost == is_too_large

    run(scenario)


def test_unfinished_requests_share_what_memory_there_is() -> None:
    async def scenario(harness: Harness) -> None:
        frame = PRODUCE + bytes(3_000_000)
        framed = len(frame).to_bytes(4, "big") + frame
        first, second = await harness.connect(), await harness.connect()
        first.transport.send([framed[:-1]])
        await asyncio.sleep(1)
        await second.send(frame)
        assert second.received == b""
        first.transport.send([framed[-1:]])
        await asyncio.sleep(1)
        for client in (first, second):
            assert client.received == b"IN client 3000002;"

    run(scenario, queued_max_request_bytes="4000000", socket_request_max_bytes="4000000")


def test_a_request_that_never_ends_keeps_others_out_only_for_a_while() -> None:
    async def scenario(harness: Harness) -> None:
        frame = PRODUCE + bytes(3_000_000)
        first, second = await harness.connect(), await harness.connect()
        first.transport.send([(len(frame).to_bytes(4, "big") + frame)[:-1]])
        await asyncio.sleep(1)
        await second.send(frame)
        assert second.received == b""
        await asyncio.sleep(PACE_S)
        assert first.is_lost
        assert second.received == b"IN client 3000002;"

    run(scenario, queued_max_request_bytes="4000000", socket_request_max_bytes="4000000")


def test_closing_ends_listeners_and_connections() -> None:
    async def scenario(harness: Harness) -> None:
        client = await harness.connect()
        harness.server.close()
        await asyncio.sleep(1)
        assert client.is_lost
        assert harness.server.connection_count == 0
        with pytest.raises(ConnectionRefusedError):
            await harness.connect()

    run(scenario)
