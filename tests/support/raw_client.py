"""A client without manners: it sends what it is given, in the version it is told, and hands back
what came. Real clients hide most of what a broker may answer."""

from __future__ import annotations

import itertools
import socket
import struct
from types import TracebackType
from typing import Any

from ottla.kernel.transport import Part
from ottla.wire.api import APIS, ApiKey
from ottla.wire.codec import decoder, encoder
from ottla.wire.header import (
    RequestHeader,
    append_request,
    decode_response_header,
    response_header_version,
)
from ottla.wire.schema import Request, Struct

TIMEOUT_S = 30


class ConnectionClosed(Exception):
    """The broker hung up."""


class RawClient:
    """One connection, blocking. Whoever opens it closes it."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def ask(self, request: Request, version: int) -> Any:
        """The response, whose every byte belongs to it."""
        correlation_id = next(self._correlation_ids)
        self.socket.sendall(frame_of(request, version, correlation_id))
        return self.response(request.API_KEY, version, correlation_id)

    def tell(self, request: Request, version: int) -> None:
        """For a request that wants no answer, or whose answer is read later."""
        self.socket.sendall(frame_of(request, version, next(self._correlation_ids)))

    def response(self, api_key: int, version: int, correlation_id: int | None = None) -> Any:
        frame = self.receive_frame()
        answered_id, position = decode_response_header(
            frame, response_header_version(api_key, version)
        )
        assert correlation_id in (None, answered_id), "answers come in the order of requests"
        message, end = decoder(APIS[ApiKey(api_key)].response, version)(frame, position)
        assert end == len(frame), f"{len(frame) - end} bytes follow the response"
        return message

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def is_closed_by_broker(self) -> bool:
        """Waits until the broker has hung up; False when it answers instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                piece = self.socket.recv(min(size - len(received), 1 << 20))
            except ConnectionError as error:
                raise ConnectionClosed(str(error)) from error
            if not piece:
                raise ConnectionClosed("the broker closed the connection")
            received += piece
        return bytes(received)


def frame_of(
    request: Request, version: int, correlation_id: int = 1, client_id: str | None = "raw"
) -> bytes:
    """With its size in front."""
    parts: list[Part] = []
    header = RequestHeader(request.API_KEY, version, correlation_id, client_id)
    append_request(header, encoder(type(request), version), request, parts)
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


def as_dict(value: Any) -> Any:
    """Messages as plain data, to compare and to print."""
    if isinstance(value, Struct):
        return {field.name: as_dict(getattr(value, field.name)) for field in value.FIELDS}
    if isinstance(value, list):
        return [as_dict(element) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value
