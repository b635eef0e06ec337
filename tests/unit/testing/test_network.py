from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.kernel.disk import FileSlice
from ottla.kernel.transport import Transport
from ottla.testing.disk import Fault, SimulatedDisk
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.network import CLIENT, LOCALHOST, SimulatedListener, SimulatedNetwork
from tests.support.receiver import NotingReceiver, RefusingReceiver

PORT = 9092


class Pair:
    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, random.Random(seed))
        self.sides: list[NotingReceiver] = []
        self.listener = self.network.listen("localhost", PORT, self.accept)

    def accept(self, transport: Transport) -> NotingReceiver:
        self.sides.append(NotingReceiver(transport))
        return self.sides[-1]

    async def connect(self) -> None:
        self.listener.start()
        await self.network.connect("localhost", PORT, self.accept)

    @property
    def client(self) -> NotingReceiver:
        return self.sides[0]

    @property
    def server(self) -> NotingReceiver:
        return self.sides[1]


def run(scenario: Callable[[Pair], Awaitable[None]], seed: int = 0) -> None:
    async def main(loop: VirtualLoop) -> None:
        pair = Pair(loop, seed)
        await pair.connect()
        await scenario(pair)

    run_virtual(main)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_arrive_late_in_pieces_and_in_order(seed: int) -> None:
    async def scenario(pair: Pair) -> None:
        disk = SimulatedDisk(random.Random(seed))
        file = disk.open("/file", create=True)
        file.write_at(0, [b"0123456789"])
        sent = bytes(number % 251 for number in range(20_000))
        pair.client.transport.send([sent, FileSlice(file, 2, 3)])
        pair.client.transport.send([b"end"])
        assert pair.server.received == b""
        await asyncio.sleep(1)
        assert pair.server.received == sent + b"234end"
        assert len(pair.server.pieces) > 5
        pair.server.transport.send([b"back"])
        await asyncio.sleep(1)
        assert pair.client.received == b"back"

    run(scenario, seed)


def test_a_file_that_cannot_be_read_ends_the_connection() -> None:
    async def scenario(pair: Pair) -> None:
        disk = SimulatedDisk(random.Random(0))
        file = disk.open("/file", create=True)
        file.write_at(0, [b"0123456789"])
        disk.fail(Fault("read_at"))
        pair.client.transport.send([b"head", FileSlice(file, 2, 3)])
        await asyncio.sleep(1)
        assert pair.server.received == b"head"
        assert pair.client.is_lost
        assert pair.server.is_lost

    run(scenario)


def test_a_slice_is_read_when_the_socket_takes_it() -> None:
    """Which may be later than it was sent: what was sent after it waits, too."""

    async def scenario(pair: Pair) -> None:
        disk = SimulatedDisk(random.Random(0))
        waited_count = 0
        for number in range(100):
            file = disk.open(f"/{number}", create=True)
            file.write_at(0, [b"old"])
            before = len(pair.server.received)
            pair.client.transport.send([FileSlice(file, 0, 3)])
            pair.client.transport.send([b"end"])
            is_waiting = pair.client.transport.unsent_byte_count == 6
            file.write_at(0, [b"new"])
            await asyncio.sleep(1)
            expected = b"newend" if is_waiting else b"oldend"
            assert pair.server.received[before:] == expected
            waited_count += is_waiting
        assert 0 < waited_count < 50
        assert pair.client.later_sends == waited_count

    run(scenario)


def test_a_file_that_became_shorter_ends_the_connection() -> None:
    async def scenario(pair: Pair) -> None:
        disk = SimulatedDisk(random.Random(0))
        pair.client.transport.send([FileSlice(disk.open("/file", create=True), 2, 3)])
        await asyncio.sleep(1)
        assert pair.server.received == b""
        assert pair.client.is_lost

    run(scenario)


def test_what_takes_a_slow_way_is_late_and_in_order() -> None:
    async def scenario(pair: Pair) -> None:
        pair.network.slow_ways[CLIENT, LOCALHOST] = 100.0
        pair.client.transport.send([b"a"])
        pair.client.transport.send([b"b"])
        pair.server.transport.send([b"c"])
        await asyncio.sleep(1)
        assert pair.server.received == b""
        assert pair.client.received == b"c"
        await asyncio.sleep(100)
        assert pair.server.received == b"ab"

    run(scenario)


def test_nothing_is_delivered_while_paused() -> None:
    async def scenario(pair: Pair) -> None:
        pair.server.transport.pause_reading()
        pair.client.transport.send([b"x" * 5000])
        await asyncio.sleep(1)
        assert pair.server.received == b""
        pair.server.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(pair.server.received) == 5000

    run(scenario)


def test_closing_is_heard_once_on_both_sides_after_what_was_sent() -> None:
    async def scenario(pair: Pair) -> None:
        pair.client.transport.send([b"last words"])
        pair.client.transport.close()
        pair.client.transport.close()
        assert pair.client.losses == []
        pair.client.transport.send([b"too late"])
        await asyncio.sleep(1)
        assert pair.client.losses == [None]
        assert pair.server.losses == [None]
        assert pair.server.received == b"last words"

    run(scenario)


def test_whoever_accepts_may_refuse() -> None:
    async def main(loop: VirtualLoop) -> None:
        network = SimulatedNetwork(loop, random.Random(0))
        refused: list[RefusingReceiver] = []
        clients: list[NotingReceiver] = []

        def accept(transport: Transport) -> NotingReceiver:
            refused.append(RefusingReceiver(transport))
            return refused[0]

        def keep(transport: Transport) -> NotingReceiver:
            clients.append(NotingReceiver(transport))
            return clients[0]

        network.listen("localhost", PORT, accept).start()
        await network.connect("localhost", PORT, keep)
        await asyncio.sleep(1)
        assert refused[0].losses == clients[0].losses == [None]

    run_virtual(main)


def test_a_port_is_taken_once_and_free_again_when_closed() -> None:
    async def main(loop: VirtualLoop) -> None:
        pair = Pair(loop, 0)
        with pytest.raises(OSError, match="in use"):
            pair.network.listen("localhost", PORT, pair.accept)
        with pytest.raises(ConnectionRefusedError):  # It does not accept yet.
            await pair.network.connect("localhost", PORT, pair.accept)
        await pair.connect()
        pair.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await pair.network.connect("localhost", PORT, pair.accept)
        pair.network.listen("localhost", PORT, pair.accept)
        # Open connections stay.
        pair.client.transport.send([b"still here"])
        await asyncio.sleep(1)
        assert pair.server.received == b"still here"

    run_virtual(main)


def test_port_0_is_one_that_is_free() -> None:
    async def main(loop: VirtualLoop) -> None:
        pair = Pair(loop, 0)
        ports = {pair.network.listen("localhost", 0, pair.accept).port for _ in range(3)}
        assert len(ports) == 3
        assert 0 not in ports

    run_virtual(main)


def test_a_listener_that_dies_takes_its_connections_along() -> None:
    async def scenario(pair: Pair) -> None:
        assert isinstance(pair.listener, SimulatedListener)
        pair.listener.die()
        await asyncio.sleep(1)
        assert pair.client.losses == [None]

    run(scenario)


class Hosts:
    """A connection from host `a` to host `b`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.network = SimulatedNetwork(loop, random.Random(0))
        self.sides: list[NotingReceiver] = []

    def accept(self, transport: Transport) -> NotingReceiver:
        self.sides.append(NotingReceiver(transport))
        return self.sides[-1]

    async def connect(self) -> None:
        await self.network.host("a").connect("b", PORT, self.accept)

    async def say(self) -> tuple[bytes, bytes]:
        """Both say a word; what each has heard some time later."""
        near, far = self.sides
        near.transport.send([b"near."])
        far.transport.send([b"far."])
        await asyncio.sleep(1)
        return bytes(near.received), bytes(far.received)


def run_hosts(scenario: Callable[[Hosts], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        hosts = Hosts(loop)
        hosts.network.host("b").listen("any", PORT, hosts.accept).start()
        await hosts.connect()
        await scenario(hosts)

    run_virtual(main)


def test_hosts_have_ports_of_their_own_and_know_who_connects() -> None:
    async def scenario(hosts: Hosts) -> None:
        hosts.network.host("c").listen("any", PORT, hosts.accept).start()
        with pytest.raises(ConnectionRefusedError, match=f"port {PORT} of d"):
            await hosts.network.host("a").connect("d", PORT, hosts.accept)
        near, far = hosts.sides
        assert (near.transport.peer_host, far.transport.peer_host) == ("b", "a")
        assert await hosts.say() == (b"far.", b"near.")

    run_hosts(scenario)


def test_a_way_that_is_cut_brings_nothing_until_it_is_healed() -> None:
    async def scenario(hosts: Hosts) -> None:
        hosts.network.cut("a", "b")
        assert await hosts.say() == (b"far.", b""), "the other way is not touched"
        hosts.network.heal("a", "b")
        assert await hosts.say() == (b"far.far.", b"near.near.")

    run_hosts(scenario)


def test_nobody_hears_of_an_end_beyond_a_cut() -> None:
    async def scenario(hosts: Hosts) -> None:
        near, far = hosts.sides
        hosts.network.cut("a", "b")
        near.transport.send([b"last words"])
        near.transport.close()
        await asyncio.sleep(10)
        assert (near.is_lost, far.is_lost) == (True, False)
        hosts.network.heal("a", "b")
        await asyncio.sleep(1)
        assert far.is_lost
        assert far.received == b"last words"

    run_hosts(scenario)


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_connecting_waits_for_both_ways(way: tuple[str, str]) -> None:
    async def scenario(hosts: Hosts) -> None:
        hosts.network.cut(*way)
        connecting = asyncio.create_task(hosts.connect())
        await asyncio.sleep(10)
        assert not connecting.done()
        hosts.network.heal(*way)
        await connecting

    run_hosts(scenario)


def test_a_reset_ends_connections_of_two_hosts_at_both_ends() -> None:
    async def scenario(hosts: Hosts) -> None:
        hosts.network.reset("a", "c")
        assert await hosts.say() == (b"far.", b"near.")
        hosts.network.reset("b", "a")
        await asyncio.sleep(1)
        for side in hosts.sides:
            (error,) = side.losses
            assert isinstance(error, ConnectionResetError)

    run_hosts(scenario)
