"""A blocking connection that sends a frame and takes the answer."""

from __future__ import annotations

import socket
import struct
from types import TracebackType


class Connection:
    """Owned by who opens it; not for several threads. A frame from the broker stays valid until
    the next call."""

    def __init__(self, address: str, timeout_s: float = 60.0) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(64 * 1024)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def ask(self, frame: bytes | bytearray) -> memoryview:
        """The answer without its length."""
        self.send(frame)
        return self.receive()

    def send(self, frame: bytes | bytearray) -> None:
        self.socket.sendall(frame)

    def receive(self) -> memoryview:
        """The next answer, without its length."""
        self._receive(0, 4)
        (length,) = struct.unpack_from(">i", self._buffer)
        if length > len(self._buffer):
            self._buffer = bytearray(length)
        self._receive(0, length)
        return memoryview(self._buffer)[:length]

    def _receive(self, start: int, end: int) -> None:
        view = memoryview(self._buffer)
        while start < end:
            count = self.socket.recv_into(view[start:end])
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            start += count
