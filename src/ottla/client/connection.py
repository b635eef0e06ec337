"""One connection to one broker: requests out, each answered by its response."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple, TypeVar

from ottla.kernel.transport import Network, Part, Transport
from ottla.wire.api import APIS, ApiKey
from ottla.wire.codec import MalformedMessage, codec
from ottla.wire.framing import FrameReader, FrameTooLarge
from ottla.wire.header import (
    RequestHeader,
    append_request,
    decode_response_header,
    response_header_version,
)
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

RESPONSE_BYTES_MAX = 128 * 1024 * 1024
_RECEIVE_BUFFER_BYTES = 64 * 1024


class _Awaited(NamedTuple):
    correlation_id: int
    key: ApiKey
    version: int
    response: asyncio.Future[Any]


class ClientConnection:
    """Opened by whoever talks to a broker, and closed by it. Requests may be in flight together;
    a broker answers them in order. When the connection is lost, whatever waits hears of it."""

    def __init__(self, transport: Transport, client_id: str) -> None:
        self._transport = transport
        self._client_id = client_id
        self._frames = FrameReader(
            memoryview(bytearray(_RECEIVE_BUFFER_BYTES)), RESPONSE_BYTES_MAX, RESPONSE_BYTES_MAX
        )
        self._awaited: deque[_Awaited] = deque()
        self._next_correlation_id = 0
        self.is_lost = False
        self._failure: Exception | None = None

    @classmethod
    async def open(
        cls, network: Network, host: str, port: int, *, client_id: str = "ottla"
    ) -> ClientConnection:
        opened: list[ClientConnection] = []

        def accept(transport: Transport) -> ClientConnection:
            opened.append(cls(transport, client_id))
            return opened[0]

        await network.connect(host, port, accept)
        return opened[0]

    async def call(self, request: Request, response_class: type[R], version: int) -> R:
        """Sends a request and waits for its response. Raises ConnectionError."""
        response = await self._send(request, version)
        assert isinstance(response, response_class), "the table of APIs pairs request and response"
        return response

    def send_unanswered(self, request: Request, version: int) -> None:
        """For a Produce with acks=0."""
        self._check_open()
        self._transport.send(self._framed(request, version)[1])

    def close(self) -> None:
        self._transport.close()

    def _send(self, request: Request, version: int) -> asyncio.Future[Any]:
        self._check_open()
        correlation_id, parts = self._framed(request, version)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._awaited.append(_Awaited(correlation_id, ApiKey(request.API_KEY), version, future))
        self._transport.send(parts)
        return future

    def _framed(self, request: Request, version: int) -> tuple[int, list[Part]]:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        header = RequestHeader(request.API_KEY, version, correlation_id, self._client_id)
        parts: list[Part] = []
        append_request(header, codec(type(request), version).encode, request, parts)
        return correlation_id, parts

    def _check_open(self) -> None:
        if self.is_lost:
            raise ConnectionError(f"the connection to {self._transport.peer} is closed")

    # -- what the transport calls -----------------------------------------------------------

    def get_buffer(self) -> memoryview:
        return self._frames.get_buffer()

    def bytes_received(self, count: int) -> None:
        try:
            for frame in self._frames.bytes_received(count):
                self._take(frame)
        except (FrameTooLarge, MalformedMessage) as error:
            # Nothing that comes after it can be trusted.
            self._failure = error
            self._transport.close()

    def bytes_sent(self) -> None:
        pass

    def connection_lost(self, error: BaseException | None) -> None:
        self.is_lost = True
        reason = self._failure or error or "it was closed"
        while self._awaited:
            awaited = self._awaited.popleft()
            if not awaited.response.done():
                awaited.response.set_exception(
                    ConnectionError(f"the connection to {self._transport.peer} was lost: {reason}")
                )

    def _take(self, frame: memoryview) -> None:
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
        # The frame's memory is reused: what the response holds of it must be its own.
        own = memoryview(bytes(frame))
        response, _ = codec(APIS[awaited.key].response, awaited.version).decode(own, position)
        self._awaited.popleft()
        if not awaited.response.done():
            awaited.response.set_result(response)
