"""A network in memory: connections delay what is sent and deliver it in pieces, but keep its order,
as TCP does. What is on its way belongs to nobody: it arrives though its sender has died or is
paused. Whoever receives is called in the context in which it listens or has connected.

Hosts have names. What one sends to another can be cut off, in one direction or in both, as by a
firewall or a broken switch: nobody is told, connections stay open, and what was sent meanwhile
arrives once the way is healed. Resetting ends connections at both ends.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context

from ottla.kernel.disk import FileSlice
from ottla.kernel.transport import Listener, Part, Receiver, Transport
from ottla.testing.loop import VirtualLoop

_FIRST_EPHEMERAL_PORT = 40_000
_WAIT_CHANCE = 0.1
_WAIT_S_MAX = 0.05
CLIENT = "client"
LOCALHOST = "localhost"


class SimulatedTransport:
    """One end of a connection."""

    def __init__(
        self,
        network: SimulatedNetwork,
        host: str,
        peer_host: str,
        peer_port: int,
        context: Context,
    ) -> None:
        self.peer = f"{peer_host}:{peer_port}"
        self.host = host
        self.peer_host = peer_host
        self.unsent_byte_count = 0
        self._network = network
        self.context = context
        self._held: list[memoryview | None] = []  # None is the end.
        self._arrived: deque[memoryview] = deque()
        self._last_arrival_s = 0.0
        self._unsent: deque[Part] = deque()
        self._is_waiting = False
        self._is_paused = False
        self._is_closed = False
        self._other: SimulatedTransport
        self._receiver: Receiver | None = None

    def connect(self, other: SimulatedTransport) -> None:
        self._other = other

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_closed:
            return
        self._unsent.extend(parts)
        self.unsent_byte_count += sum(map(len, parts))
        if not self._is_waiting:
            self._send_unsent()

    def _send_unsent(self) -> None:
        """A slice of a file is read when its turn has come: now, or when the socket has room for
        it. The file may have changed by then."""
        while self._unsent and not self._is_closed:
            part = self._unsent[0]
            must_ask = isinstance(part, FileSlice) and not self._is_waiting
            if must_ask and (delay_s := self._network.wait_s()) > 0:
                self._is_waiting = True
                call_later = self._network.loop.call_later
                call_later(delay_s, self._go_on, context=self.context)
                return
            self._is_waiting = False
            try:
                content = part.read() if isinstance(part, FileSlice) else bytes(part)
                if len(content) < len(part):
                    raise OSError(errno.EIO, "the file became shorter while it was sent")
            except OSError as error:  # The frame cannot be finished.
                self.lose(error)
                self._other.lose_later()
                return
            self._unsent.popleft()
            self.unsent_byte_count -= len(part)
            for chunk in self._network.pieces(content):
                self._other.arrive_later(chunk)

    def _go_on(self) -> None:
        self._send_unsent()
        if not self._is_closed and self._receiver is not None:
            self._receiver.bytes_sent()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._network.loop.call_soon(self._deliver)

    def close(self) -> None:
        """Ends both sides: the other one hears of it as late as of anything."""
        self.lose(None)
        self._other.lose_later()

    def arrive_later(self, chunk: memoryview | None) -> None:
        """None is the end of what comes."""
        if self._network.is_cut(self.peer_host, self.host):
            self._held.append(chunk)
            return
        due_s = self._network.arrival_s(self.peer_host, self.host)
        self._last_arrival_s = max(due_s, self._last_arrival_s + 1e-6)
        call_at = self._network.loop.call_at
        if chunk is None:
            call_at(self._last_arrival_s, self.lose, None, context=self.context)
        else:
            call_at(self._last_arrival_s, self._arrive, chunk, context=self.context)

    def lose_later(self) -> None:
        self.arrive_later(None)

    def healed(self) -> None:
        held, self._held = self._held, []
        for chunk in held:
            self.arrive_later(chunk)

    def lose(self, error: BaseException | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._network.closed(self)
            self._arrived.clear()
            self._unsent.clear()
            self.unsent_byte_count = 0
            # Later, when there is a receiver: whoever accepts a connection may refuse it.
            self._network.loop.call_soon(self._lost, error, context=self.context)

    def _lost(self, error: BaseException | None) -> None:
        if self._receiver is not None:  # Else whoever was to accept it has died.
            self._receiver.connection_lost(error)

    def _arrive(self, chunk: memoryview) -> None:
        self._arrived.append(chunk)
        self._deliver()

    def _deliver(self) -> None:
        assert self._receiver is not None, "it was accepted before anything could arrive"
        while self._arrived and not self._is_paused and not self._is_closed:
            chunk = self._arrived.popleft()
            buffer = self._receiver.get_buffer()
            count = min(len(buffer), len(chunk))
            buffer[:count] = chunk[:count]
            if count < len(chunk):
                self._arrived.appendleft(chunk[count:])
            self._receiver.bytes_received(count)


class SimulatedListener:
    def __init__(
        self,
        network: SimulatedNetwork,
        host: str,
        port: int,
        accept: Callable[[Transport], Receiver],
    ) -> None:
        self.host = host
        self.port = port
        self._accept = accept
        self.context = copy_context()
        self.accepted: list[SimulatedTransport] = []
        self.is_started = False
        self._network = network

    def start(self) -> None:
        self.is_started = True

    def connected(self, far: SimulatedTransport) -> None:
        """The system has taken the connection. The process hears of it when it runs."""
        self.accepted.append(far)
        self._network.loop.call_in(far.context, lambda: far.start(self._accept(far)))

    def close(self) -> None:
        self._network.forget(self)

    def die(self) -> None:
        """With its process: the system closes what it had accepted."""
        self.close()
        for transport in self.accepted:
            transport.close()


class SimulatedHost:
    """The network as one host sees it."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self._network = network
        self.name = name

    def listen(self, host: str, port: int, accept: Callable[[Transport], Receiver]) -> Listener:
        return self._network.listen_on(self.name, port, accept)

    async def connect(
        self, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport:
        return await self._network.connect_from(self.name, host, port, accept)


class SimulatedNetwork:
    """All hosts and what is between them. It is a network by itself, for tests with one broker:
    whoever listens does so on the host "localhost", whoever connects is on the host "client"."""

    def __init__(
        self,
        loop: VirtualLoop,
        rng: random.Random,
        *,
        latency_s_max: float = 0.002,
        chunk_bytes_max: int = 4096,
    ) -> None:
        self.loop = loop
        self._rng = rng
        self._latency_s_max = latency_s_max
        self._chunk_bytes_max = chunk_bytes_max
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT
        self._open: dict[SimulatedTransport, None] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._was_healed = asyncio.Event()
        self.slow_ways: dict[tuple[str, str], float] = {}
        """By sender and receiver: the longest that something takes, where that is not as usual.
        What is sent on other connections overtakes it."""

    def host(self, name: str) -> SimulatedHost:
        return SimulatedHost(self, name)

    def listen(self, host: str, port: int, accept: Callable[[Transport], Receiver]) -> Listener:
        return self.listen_on(LOCALHOST, port, accept)

    async def connect(
        self, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport:
        known = host if (host, port) in self._listeners else LOCALHOST
        return await self.connect_from(CLIENT, known, port, accept)

    def listen_on(
        self, own_host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Listener:
        if port == 0:
            port = self._new_port()
        if (own_host, port) in self._listeners:
            raise OSError(f"port {port} is in use")
        listener = SimulatedListener(self, own_host, port, accept)
        self._listeners[own_host, port] = listener
        return listener

    async def connect_from(
        self, own_host: str, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport:
        """Waits where the way there or back is cut: nobody can say that a host does not answer."""
        while self.is_cut(own_host, host) or self.is_cut(host, own_host):
            await self._was_healed.wait()
        listener = self._listeners.get((host, port))
        if listener is None or not listener.is_started:
            raise ConnectionRefusedError(f"nobody listens on port {port} of {host}")
        near = SimulatedTransport(self, own_host, host, port, copy_context())
        far = SimulatedTransport(self, host, own_host, self._new_port(), listener.context.copy())
        near.connect(far)
        far.connect(near)
        self._open[near] = self._open[far] = None
        near.start(accept(near))
        listener.connected(far)
        return near

    # Faults

    def cut(self, sender: str, receiver: str) -> None:
        """Nothing that the one sends reaches the other. The other way is not touched."""
        self._cuts.add((sender, receiver))

    def heal(self, sender: str, receiver: str) -> None:
        """What was sent meanwhile arrives, as TCP would send it again."""
        self._cuts.discard((sender, receiver))
        for transport in list(self._open):
            if (transport.peer_host, transport.host) == (sender, receiver):
                transport.healed()
        self._was_healed.set()
        self._was_healed = asyncio.Event()

    def is_cut(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._cuts

    def reset(self, one_host: str, other_host: str) -> None:
        """Ends all connections between the two, whoever has opened them."""
        for transport in list(self._open):
            if {transport.host, transport.peer_host} == {one_host, other_host}:
                transport.lose(ConnectionResetError("the network has reset the connection"))

    # What connections and listeners ask

    def forget(self, listener: SimulatedListener) -> None:
        self._listeners.pop((listener.host, listener.port), None)

    def closed(self, transport: SimulatedTransport) -> None:
        self._open.pop(transport, None)

    def arrival_s(self, sender: str, receiver: str) -> float:
        latency_s_max = self.slow_ways.get((sender, receiver), self._latency_s_max)
        return self.loop.now_s + self._rng.uniform(0, latency_s_max)

    def wait_s(self) -> float:
        """Until the socket takes the next part of a file."""
        return self._rng.uniform(0, _WAIT_S_MAX) if self._rng.random() < _WAIT_CHANCE else 0.0

    def pieces(self, content: bytes) -> list[memoryview]:
        """Of any size: a reader must not rely on where they end."""
        pieces: list[memoryview] = []
        rest = memoryview(content)
        while rest:
            count = self._rng.randint(1, self._chunk_bytes_max)
            pieces.append(rest[:count])
            rest = rest[count:]
        return pieces

    def _new_port(self) -> int:
        self._next_port += 1
        return self._next_port
