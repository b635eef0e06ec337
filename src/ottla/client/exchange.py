"""Requests out and responses back on one connection, without the connection: bytes in, answers out.

A broker answers the requests of a connection in the order in which they came. So a response needs
no search: it is that of the oldest request that still waits, and its correlation id must say so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.kernel.transport import Part
from ottla.wire.api import APIS, ApiKey
from ottla.wire.codec import MalformedMessage, decoder, encoder
from ottla.wire.framing import FrameReader
from ottla.wire.header import (
    RequestHeader,
    append_request,
    decode_response_header,
    response_header_version,
)
from ottla.wire.schema import Request, Response

W = TypeVar("W")

RESPONSE_BYTES_MAX = 128 * 1024 * 1024
_RECEIVE_BUFFER_BYTES = 64 * 1024
_OWN_BYTES_AT_FIRST = 16 * 1024 * 1024
"""The room that a large response gets in one step: as much as one asks for at a time. Memory that
is not written to costs nothing."""


class _Awaited(NamedTuple):
    correlation_id: int
    key: ApiKey
    version: int
    waiter: Any


class Exchange(Generic[W]):
    """Owned by a connection, lives as long. A waiter is what the connection keeps for a request
    in flight (a future, say), and gets back with its response."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._shared = bytearray(_RECEIVE_BUFFER_BYTES)
        self._frames = FrameReader(
            memoryview(self._shared), RESPONSE_BYTES_MAX, RESPONSE_BYTES_MAX, _OWN_BYTES_AT_FIRST
        )
        self._awaited: deque[_Awaited] = deque()
        self._next_correlation_id = 0

    def request(self, request: Request, version: int, waiter: W) -> list[Part]:
        """The frame to send. Raises ValueError where the version cannot say what it must."""
        correlation_id, parts = self._framed(request, version)
        self._awaited.append(_Awaited(correlation_id, ApiKey(request.API_KEY), version, waiter))
        return parts

    def unanswered_request(self, request: Request, version: int) -> list[Part]:
        """For a Produce with acks=0."""
        return self._framed(request, version)[1]

    def get_buffer(self) -> memoryview:
        return self._frames.get_buffer()

    def bytes_received(self, count: int) -> Iterator[tuple[W, Response]]:
        """Whose responses are complete now. Raises FrameTooLarge and MalformedMessage: nothing
        that comes after it can be trusted."""
        for frame in self._frames.bytes_received(count):
            yield self._answered(frame)

    def abandon(self) -> list[W]:
        """Who waits still, when the connection is over."""
        waiters = [awaited.waiter for awaited in self._awaited]
        self._awaited.clear()
        self._frames.forget()
        return waiters

    def _framed(self, request: Request, version: int) -> tuple[int, list[Part]]:
        correlation_id = self._next_correlation_id
        header = RequestHeader(request.API_KEY, version, correlation_id, self._client_id)
        parts: list[Part] = []
        append_request(header, encoder(type(request), version), request, parts)
        self._next_correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        return correlation_id, parts

    def _answered(self, frame: memoryview) -> tuple[W, Response]:
        if not self._awaited:
            raise MalformedMessage("a response came that nobody asked for")
        awaited = self._awaited[0]
        correlation_id, position = decode_response_header(
            frame, response_header_version(awaited.key, awaited.version)
        )
        if correlation_id != awaited.correlation_id:
            raise MalformedMessage(
                f"response {correlation_id} came where {awaited.correlation_id} was due"
            )
        # The memory of small frames is reused: what the response holds of it must be its own.
        own = memoryview(bytes(frame)) if frame.obj is self._shared else frame
        response, _ = decoder(APIS[awaited.key].response, awaited.version)(own, position)
        self._awaited.popleft()
        return awaited.waiter, response
