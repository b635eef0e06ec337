"""A network in memory: connections delay and cut what is sent, but keep its order, as TCP does."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from ottla.kernel.disk import FileSlice
from ottla.kernel.transport import Listener, Part, Receiver, Transport
from ottla.testing.loop import VirtualLoop

_FIRST_EPHEMERAL_PORT = 40_000


class SimulatedTransport:
    """One end of a connection."""

    def __init__(self, network: SimulatedNetwork, peer_host: str, peer_port: int) -> None:
        self.peer = f"{peer_host}:{peer_port}"
        self.peer_host = peer_host
        self.unsent_byte_count = 0
        self._network = network
        self._arrived: deque[memoryview] = deque()
        self._last_arrival_s = 0.0
        self._is_paused = False
        self._is_closed = False
        self._other: SimulatedTransport
        self._receiver: Receiver

    def connect(self, other: SimulatedTransport) -> None:
        self._other = other

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_closed:
            return
        content = b"".join(
            part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts
        )
        for chunk in self._network.cut(content):
            self._other.arrive_later(chunk)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._network.loop.call_soon(self._deliver)

    def close(self) -> None:
        """Ends both sides: the other one hears of it as late as of anything."""
        self.lose(None)
        self._other.lose_later()

    def arrive_later(self, chunk: memoryview) -> None:
        self._last_arrival_s = max(self._network.arrival_s(), self._last_arrival_s + 1e-6)
        self._network.loop.call_at(self._last_arrival_s, self._arrive, chunk)

    def lose_later(self) -> None:
        self._last_arrival_s = max(self._network.arrival_s(), self._last_arrival_s + 1e-6)
        self._network.loop.call_at(self._last_arrival_s, self.lose, None)

    def lose(self, error: BaseException | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._arrived.clear()
            # Later, when there is a receiver: whoever accepts a connection may refuse it.
            self._network.loop.call_soon(self._lost, error)

    def _lost(self, error: BaseException | None) -> None:
        self._receiver.connection_lost(error)

    def _arrive(self, chunk: memoryview) -> None:
        self._arrived.append(chunk)
        self._deliver()

    def _deliver(self) -> None:
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
        self, network: SimulatedNetwork, port: int, accept: Callable[[Transport], Receiver]
    ) -> None:
        self.port = port
        self.accept = accept
        self.accepted: list[SimulatedTransport] = []
        self.is_started = False
        self._network = network

    def start(self) -> None:
        self.is_started = True

    def close(self) -> None:
        self._network.forget(self)

    def die(self) -> None:
        """With its process: the system closes what it had accepted."""
        self.close()
        for transport in self.accepted:
            transport.close()


class SimulatedNetwork:
    """All hosts are one host for now: a port is enough to find a listener."""

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
        self._listeners: dict[int, SimulatedListener] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT

    def listen(self, host: str, port: int, accept: Callable[[Transport], Receiver]) -> Listener:
        if port == 0:
            port = self._new_port()
        if port in self._listeners:
            raise OSError(f"port {port} is in use")
        listener = self._listeners[port] = SimulatedListener(self, port, accept)
        return listener

    async def connect(
        self, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport:
        if port not in self._listeners or not self._listeners[port].is_started:
            raise ConnectionRefusedError(f"nobody listens on port {port}")
        near = SimulatedTransport(self, host, port)
        far = SimulatedTransport(self, "client", self._new_port())
        near.connect(far)
        far.connect(near)
        near.start(accept(near))
        listener = self._listeners[port]
        listener.accepted.append(far)
        far.start(listener.accept(far))
        return near

    def forget(self, listener: SimulatedListener) -> None:
        self._listeners.pop(listener.port, None)

    def arrival_s(self) -> float:
        return self.loop.now_s + self._rng.uniform(0, self._latency_s_max)

    def cut(self, content: bytes) -> list[memoryview]:
        """Into pieces of any size: a reader must not rely on where they end."""
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
