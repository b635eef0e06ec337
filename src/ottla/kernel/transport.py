"""The seam to the network: what a connection is to the code above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.kernel.disk import Buffer, FileSlice

Part = Buffer | FileSlice


class Transport(Protocol):
    """One connection's way out, and its flow control. Used on the loop only."""

    @property
    def peer(self) -> str:
        """Who is on the other side, for logs: `host:port`."""
        ...

    @property
    def peer_host(self) -> str: ...

    @property
    def unsent_byte_count(self) -> int: ...

    def send(self, parts: Sequence[Part]) -> None:
        """Queues all parts, in order, and sends what the socket takes at once. Buffers must
        not change afterwards."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Drops what is unsent. The receiver hears `connection_lost` once, soon after."""
        ...


class Receiver(Protocol):
    """What the transport calls as bytes arrive."""

    def get_buffer(self) -> memoryview:
        """Where the next bytes go. Valid until `bytes_received` returns."""
        ...

    def bytes_received(self, count: int) -> None: ...

    def bytes_sent(self) -> None:
        """Some of what was queued went out later than `send`."""
        ...

    def connection_lost(self, error: BaseException | None) -> None: ...


class Listener(Protocol):
    @property
    def port(self) -> int: ...

    def start(self) -> None:
        """Accepts from now on. Whoever connected before waits meanwhile."""
        ...

    def close(self) -> None:
        """Accepts no more. Open connections stay."""
        ...


class Network(Protocol):
    def listen(self, host: str, port: int, accept: Callable[[Transport], Receiver]) -> Listener:
        """Binds every address that the host name stands for; port 0 picks one port for all."""
        ...

    async def connect(
        self, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport: ...
