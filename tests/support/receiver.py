"""One end of a connection, which notes what happens to it."""

from __future__ import annotations

from ottla.kernel.transport import Transport


class NotingReceiver:
    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.received = bytearray()
        self.pieces: list[int] = []
        """The sizes in which it came."""
        self.losses: list[BaseException | None] = []
        self.later_sends = 0
        self._buffer = bytearray(256 * 1024)

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def bytes_received(self, count: int) -> None:
        self.received += self._buffer[:count]
        self.pieces.append(count)

    def bytes_sent(self) -> None:
        self.later_sends += 1

    def connection_lost(self, error: BaseException | None) -> None:
        self.losses.append(error)

    @property
    def is_lost(self) -> bool:
        return bool(self.losses)


class RefusingReceiver(NotingReceiver):
    """Leaves before it has come."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        transport.close()
