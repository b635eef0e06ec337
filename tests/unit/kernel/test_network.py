from __future__ import annotations

import asyncio
import errno
import resource
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.kernel import network
from ottla.kernel.disk import FileSlice, SystemFile
from ottla.kernel.network import SystemListener, SystemNetwork
from ottla.kernel.transport import Listener, Part, Transport
from ottla.kernel.wakefulness import Wakefulness
from ottla.kernel.workers import ThreadWorkers
from tests.support.receiver import NotingReceiver, RefusingReceiver

MB = 1024 * 1024
WAIT_S = 20


class Side(NotingReceiver):
    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._changed = asyncio.Event()

    def bytes_received(self, count: int) -> None:
        super().bytes_received(count)
        self._changed.set()

    def bytes_sent(self) -> None:
        super().bytes_sent()
        self._changed.set()

    def connection_lost(self, error: BaseException | None) -> None:
        super().connection_lost(error)
        self._changed.set()

    async def close(self) -> None:
        self.transport.close()
        await self.until(lambda: self.is_lost)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Sides:
    """What accepts connections, and keeps their ends."""

    def __init__(self) -> None:
        self.made: list[Side] = []
        self._changed = asyncio.Event()

    def __call__(self, transport: Transport) -> Side:
        self.made.append(Side(transport))
        self._changed.set()
        return self.made[-1]

    async def first(self) -> Side:
        await asyncio.wait_for(self._changed.wait(), WAIT_S)
        return self.made[0]


@dataclass
class Pair:
    """Both ends of one connection through a real listener."""

    network: SystemNetwork
    listener: Listener
    server: Side
    client: Side


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    async def connected() -> None:
        workers = ThreadWorkers()
        real = SystemNetwork(workers)
        servers, clients = Sides(), Sides()
        listener = real.listen("127.0.0.1", 0, servers)
        listener.start()
        try:
            await real.connect("127.0.0.1", listener.port, clients)
            pair = Pair(real, listener, await servers.first(), await clients.first())
            await scenario(pair)
            await pair.server.close()
            await pair.client.close()
        finally:
            listener.close()
            workers.close()

    asyncio.run(connected())


@pytest.fixture
def file(tmp_path: Path) -> SystemFile:
    file = SystemFile(str(tmp_path / "segment"), create=True)
    file.write_at(0, [bytes(range(256)) * (12 * MB // 256)])
    return file


def cold_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From now on no file is in the page cache. Returns the lengths that are read."""
    reads: list[int] = []
    read_at = SystemFile.read_at

    def noted_read_at(self: SystemFile, offset: int, length: int) -> bytes:
        reads.append(length)
        return read_at(self, offset, length)

    monkeypatch.setattr(SystemFile, "is_cached", lambda self, offset, length: False)
    monkeypatch.setattr(SystemFile, "read_at", noted_read_at)
    return reads


def test_bytes_go_both_ways_and_peers_are_named() -> None:
    async def scenario(pair: Pair) -> None:
        pair.client.transport.send([b"ping"])
        await pair.server.until(lambda: pair.server.received == b"ping")
        pair.server.transport.send([b"po", bytearray(b"n"), memoryview(b"g")])
        await pair.client.until(lambda: pair.client.received == b"pong")
        assert pair.client.transport.peer == f"127.0.0.1:{pair.listener.port}"
        assert pair.server.transport.peer_host == "127.0.0.1"

    run(scenario)


def test_buffers_and_slices_leave_in_order_however_much_it_is(file: SystemFile) -> None:
    async def scenario(pair: Pair) -> None:
        content = file.read_at(0, file.size())
        parts: list[Part] = [
            b"head",
            FileSlice(file, 1, 5 * MB),
            b"middle" * MB,
            b"",
            FileSlice(file, 7, 9),
        ]
        parts += [bytes([number % 256]) for number in range(2000)]
        pair.server.transport.send(parts)
        expected = b"head" + content[1 : 1 + 5 * MB] + b"middle" * MB + content[7:16]
        expected += bytes(number % 256 for number in range(2000))
        assert pair.server.transport.unsent_byte_count > 0  # No socket takes all that at once.
        await pair.client.until(lambda: len(pair.client.received) >= len(expected))
        assert pair.client.received == expected
        await pair.server.until(lambda: pair.server.transport.unsent_byte_count == 0)
        assert pair.server.later_sends > 0

    run(scenario)


def test_others_have_their_turn_while_a_large_slice_leaves(file: SystemFile) -> None:
    async def scenario(pair: Pair) -> None:
        pair.server.transport.send([FileSlice(file, 0, file.size())])
        assert file.size() - pair.server.transport.unsent_byte_count <= MB // 4
        await pair.client.until(lambda: len(pair.client.received) == file.size())

    run(scenario)


def test_others_have_their_turn_while_many_small_slices_leave(file: SystemFile) -> None:
    async def scenario(pair: Pair) -> None:
        pair.server.transport.send([FileSlice(file, number, 1) for number in range(1000)])
        assert pair.server.transport.unsent_byte_count >= 1000 - 128
        await pair.client.until(lambda: len(pair.client.received) == 1000)

    run(scenario)


def test_what_is_sent_while_more_waits_goes_after_it() -> None:
    async def scenario(pair: Pair) -> None:
        pair.server.transport.send([b"a" * (16 * MB)])
        pair.server.transport.send([b"b"])
        await pair.client.until(lambda: len(pair.client.received) == 16 * MB + 1)
        assert pair.client.received.endswith(b"ab")

    run(scenario)


def test_a_cold_slice_is_read_by_a_worker_first(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file.read_at(0, 3 * MB)
    reads = cold_reads(monkeypatch)

    async def scenario(pair: Pair) -> None:
        pair.server.transport.send([b"head", FileSlice(file, 0, 3 * MB), b"tail"])
        await pair.client.until(lambda: len(pair.client.received) == 3 * MB + 8)
        assert pair.client.received == b"head" + content + b"tail"

    run(scenario)
    assert reads == [MB] * 3


def test_a_cold_slice_waits_for_a_slow_reader_without_reading_it_again_and_again(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file.read_at(0, file.size())
    reads = cold_reads(monkeypatch)

    async def scenario(pair: Pair) -> None:
        pair.client.transport.pause_reading()
        pair.server.transport.send([FileSlice(file, 0, file.size())] * 2)
        read_count = -1
        while len(reads) != read_count:  # Until the socket is full.
            read_count = len(reads)
            await asyncio.sleep(0.05)
        assert pair.server.transport.unsent_byte_count > 0
        pair.client.transport.resume_reading()
        await pair.client.until(lambda: len(pair.client.received) == 2 * file.size())
        assert pair.client.received == content * 2

    run(scenario)


def test_a_cold_file_that_cannot_be_read_closes_the_connection(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing_read_at(self: SystemFile, offset: int, length: int) -> bytes:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(SystemFile, "is_cached", lambda self, offset, length: False)
    monkeypatch.setattr(SystemFile, "read_at", failing_read_at)

    async def scenario(pair: Pair) -> None:
        pair.server.transport.send([FileSlice(file, 0, 10)])
        await pair.server.until(lambda: pair.server.is_lost)
        assert "the disk is broken" in str(pair.server.losses[0])

    run(scenario)


def test_a_slice_that_became_shorter_closes_the_connection(file: SystemFile) -> None:
    async def scenario(pair: Pair) -> None:
        part = FileSlice(file, 0, file.size())
        file.truncate(10)
        pair.server.transport.send([part])
        await pair.server.until(lambda: pair.server.is_lost)
        (loss,) = pair.server.losses
        assert isinstance(loss, OSError)
        assert "shorter" in str(loss)
        await pair.client.until(lambda: pair.client.is_lost)

    run(scenario)


def test_nothing_is_read_while_paused() -> None:
    async def scenario(pair: Pair) -> None:
        pair.server.transport.pause_reading()
        pair.client.transport.send([b"x" * (64 * MB)])
        # More than the kernel's buffers hold: the sender is held back.
        for _ in range(100):
            await asyncio.sleep(0)
        assert pair.server.received == b""
        assert pair.client.transport.unsent_byte_count > 0
        pair.server.transport.resume_reading()
        await pair.server.until(lambda: len(pair.server.received) == 64 * MB)

    run(scenario)


def test_closing_is_heard_once_on_both_sides_and_drops_what_is_unsent() -> None:
    async def scenario(pair: Pair) -> None:
        pair.server.transport.send([b"x" * (64 * MB)])
        pair.server.transport.close()
        pair.server.transport.close()
        assert pair.server.transport.unsent_byte_count == 0
        assert pair.server.losses == []  # Soon after, not from within.
        await pair.server.until(lambda: pair.server.is_lost)
        await pair.client.until(lambda: pair.client.is_lost)
        pair.server.transport.send([b"too late"])
        await asyncio.sleep(0)
        assert pair.server.losses == [None]
        assert len(pair.client.losses) == 1

    run(scenario)


def test_a_peer_that_leaves_is_no_error() -> None:
    async def scenario(pair: Pair) -> None:
        pair.client.transport.close()
        await pair.server.until(lambda: pair.server.is_lost)
        assert pair.server.losses == [None]

    run(scenario)


def test_a_peer_that_breaks_off_is_an_error() -> None:
    async def scenario(pair: Pair) -> None:
        servers = Sides()
        listener = pair.network.listen("127.0.0.1", 0, servers)
        listener.start()
        with socket.socket() as peer:
            peer.connect(("127.0.0.1", listener.port))
            server = await servers.first()
            # A reset in place of an orderly end.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await server.until(lambda: server.is_lost)
        assert isinstance(server.losses[0], ConnectionResetError)
        listener.close()

    run(scenario)


def test_sending_to_a_peer_that_broke_off_is_an_error() -> None:
    async def scenario(pair: Pair) -> None:
        servers = Sides()
        listener = pair.network.listen("127.0.0.1", 0, servers)
        listener.start()
        with socket.socket() as peer:
            peer.connect(("127.0.0.1", listener.port))
            server = await servers.first()
            server.transport.pause_reading()  # So that only sending can find out.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.transport.send([b"x"])
        await server.until(lambda: server.is_lost)
        assert isinstance(server.losses[0], OSError)
        assert server.transport.unsent_byte_count == 0
        listener.close()

    run(scenario)


def test_a_closed_listener_accepts_no_more_and_keeps_what_it_has() -> None:
    async def scenario(pair: Pair) -> None:
        pair.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await pair.network.connect("127.0.0.1", pair.listener.port, Sides())
        pair.client.transport.send([b"still here"])
        await pair.server.until(lambda: pair.server.received == b"still here")

    run(scenario)


def test_whoever_accepts_may_refuse() -> None:
    async def scenario(pair: Pair) -> None:
        refused: list[RefusingReceiver] = []

        def accept(transport: Transport) -> RefusingReceiver:
            refused.append(RefusingReceiver(transport))
            return refused[0]

        clients = Sides()
        listener = pair.network.listen("127.0.0.1", 0, accept)
        listener.start()
        await pair.network.connect("127.0.0.1", listener.port, clients)
        client = await clients.first()
        await client.until(lambda: client.is_lost)
        assert refused[0].losses == [None]
        listener.close()

    run(scenario)


def test_a_port_in_use_is_an_error() -> None:
    async def scenario(pair: Pair) -> None:
        with pytest.raises(OSError, match="in use") as caught:
            pair.network.listen("127.0.0.1", pair.listener.port, Sides())
        assert caught.value.errno == errno.EADDRINUSE

    run(scenario)


def test_localhost_is_one_port_on_every_family_that_the_machine_has() -> None:
    families = [socket.AF_INET]
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        families.append(socket.AF_INET6)
    except OSError:
        pass  # A machine without IPv6.

    async def scenario() -> None:
        workers = ThreadWorkers()
        listener = SystemNetwork(workers).listen("localhost", 0, Sides())
        for family in families:
            with socket.socket(family) as client:
                address = "127.0.0.1" if family == socket.AF_INET else "::1"
                client.connect((address, listener.port))
        listener.close()
        workers.close()

    asyncio.run(scenario())


def test_every_address_of_a_host_is_tried() -> None:
    async def scenario(pair: Pair) -> None:
        # Where `localhost` is ::1 first, nobody is there.
        clients = Sides()
        await pair.network.connect("localhost", pair.listener.port, clients)
        await (await clients.first()).close()

    run(scenario)


def test_who_gives_up_connecting_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pair: Pair) -> None:
        opened: list[socket.socket] = []
        loop = asyncio.get_running_loop()

        async def never(sock: socket.socket, address: object) -> None:
            opened.append(sock)
            await loop.create_future()

        monkeypatch.setattr(loop, "sock_connect", never)
        connecting = asyncio.ensure_future(
            pair.network.connect("127.0.0.1", pair.listener.port, Sides())
        )
        while not opened:
            await asyncio.sleep(0.001)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert opened[0].fileno() == -1

    run(scenario)


def taken_in_ipv6(monkeypatch: pytest.MonkeyPatch, *, times: int) -> list[int]:
    """As if others had the ports that IPv4 was given. Returns which were tried."""
    tried: list[int] = []
    listening = network._listening

    def some_are_taken(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
        if family == socket.AF_INET6:
            tried.append(address[1])
            if len(tried) <= times:
                raise OSError(errno.EADDRINUSE, "in use")
        return listening(family, address)

    monkeypatch.setattr(network, "_listening", some_are_taken)
    return tried


def test_port_0_is_picked_again_until_every_family_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = taken_in_ipv6(monkeypatch, times=2)

    async def scenario(pair: Pair) -> None:
        listener = pair.network.listen("localhost", 0, Sides())
        assert len(tried) == 3
        assert listener.port == tried[-1]
        listener.close()

    run(scenario)


def test_a_port_that_one_family_lacks_is_given_back_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken_in_ipv6(monkeypatch, times=1)

    async def scenario(pair: Pair) -> None:
        free = pair.network.listen("127.0.0.1", 0, Sides())
        free.close()
        with pytest.raises(OSError, match="in use"):
            pair.network.listen("localhost", free.port, Sides())
        pair.network.listen("127.0.0.1", free.port, Sides()).close()

    run(scenario)


@pytest.mark.parametrize(("limit", "largest"), [(1024, 767), (100, 74), (1 << 20, (1 << 20) - 257)])
def test_the_last_descriptors_are_for_files(
    limit: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert network._descriptor_max() == largest


def test_a_connection_that_would_take_a_files_descriptor_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(network, "_ACCEPT_PAUSE_S", 0.01)
    monkeypatch.setattr(network, "_descriptor_max", lambda: 2)

    async def scenario() -> None:
        workers = ThreadWorkers()
        sides, clients = Sides(), Sides()
        listener = SystemNetwork(workers).listen("127.0.0.1", 0, sides)
        listener.start()
        await SystemNetwork(workers).connect("127.0.0.1", listener.port, clients)
        refused = await clients.first()
        await refused.until(lambda: refused.is_lost)
        assert not sides.made
        listener.close()
        workers.close()

    asyncio.run(scenario())
    assert "too many open files" in caplog.text


def test_a_listener_without_a_descriptor_to_spare_tries_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Exhausted(socket.socket):
        attempt_count = 0

        def accept(self) -> tuple[socket.socket, Any]:
            Exhausted.attempt_count += 1
            if Exhausted.attempt_count == 1:
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

    monkeypatch.setattr(network, "_ACCEPT_PAUSE_S", 0.01)

    async def scenario() -> None:
        workers = ThreadWorkers()
        sides, clients = Sides(), Sides()
        listening = Exhausted(socket.AF_INET, socket.SOCK_STREAM)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        listener = SystemListener([listening], sides, workers, Wakefulness())
        listener.start()
        await SystemNetwork(workers).connect("127.0.0.1", listener.port, clients)
        await (await sides.first()).close()
        await (await clients.first()).close()
        listener.close()
        workers.close()

    asyncio.run(scenario())
    assert "too many open files" in caplog.text


def test_connections_get_the_buffers_that_were_asked_for() -> None:
    async def buffer_bytes(**sizes: int) -> tuple[int, int]:
        workers = ThreadWorkers()
        accepted = Sides()
        real = SystemNetwork(workers, **sizes)
        listener = real.listen("127.0.0.1", 0, accepted)
        listener.start()
        client: Transport | None = None
        try:
            client = await real.connect("127.0.0.1", listener.port, Sides())
            transport: Any = (await accepted.first()).transport
            options = (socket.SO_SNDBUF, socket.SO_RCVBUF)
            send, receive = (
                transport._socket.getsockopt(socket.SOL_SOCKET, option) for option in options
            )
            transport.close()
            return send, receive
        finally:
            if client is not None:
                client.close()
            listener.close()
            workers.close()

    async def test() -> None:
        send, receive = await buffer_bytes(send_buffer_bytes=20_000, receive_buffer_bytes=30_000)
        # Linux tells of twice as much: its own book-keeping counts too.
        assert send in (20_000, 40_000)
        assert receive in (30_000, 60_000)
        assert await buffer_bytes() not in ((20_000, 30_000), (40_000, 60_000))

    asyncio.run(test())
