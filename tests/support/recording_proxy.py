"""Stands between real clients and a broker, and keeps the frames that the clients sent."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType


class RecordingProxy:
    """Listens from `__enter__` to `__exit__`. Clients learn the broker's own address from its
    metadata, so whoever wants all of their requests lets the broker advertise this proxy."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.frames: list[bytes] = []
        self._broker = ("", 0)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def forward_to(self, port: int) -> None:
        self._broker = ("127.0.0.1", port)

    def __enter__(self) -> RecordingProxy:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for sock in (self._listening, *self._sockets):
            _end(sock)
            sock.close()
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            broker = socket.create_connection(self._broker)
            self._sockets += [client, broker]
            self._start(self._forward, client, broker, True)
            self._start(self._forward, broker, client, False)

    def _forward(self, source: socket.socket, target: socket.socket, is_recorded: bool) -> None:
        received = bytearray()
        while True:
            try:
                piece = source.recv(1 << 16)
                if not piece:
                    break
                target.sendall(piece)
            except OSError:
                break
            if is_recorded:
                received += piece
                self._keep_whole_frames(received)
        _end(target)

    def _keep_whole_frames(self, received: bytearray) -> None:
        while len(received) >= 4:
            end = 4 + struct.unpack_from(">i", received)[0]
            if len(received) < end:
                return
            self.frames.append(bytes(received[:end]))
            del received[:end]


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It is already gone.
