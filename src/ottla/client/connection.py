"""One connection to one broker: requests out, each answered by its response."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from ottla.client.exchange import Exchange
from ottla.kernel.transport import Network, Transport
from ottla.wire.codec import MalformedMessage
from ottla.wire.framing import FrameTooLarge
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)


class ClientConnection:
    """Opened by whoever talks to a broker, and closed by it. Requests may be in flight together;
    a broker answers them in order. When the connection is lost, whatever waits hears of it."""

    def __init__(self, transport: Transport, client_id: str) -> None:
        self._transport = transport
        self._exchange: Exchange[asyncio.Future[Any]] = Exchange(client_id)
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
        self._transport.send(self._exchange.unanswered_request(request, version))

    def close(self) -> None:
        self._transport.close()

    def _send(self, request: Request, version: int) -> asyncio.Future[Any]:
        self._check_open()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._transport.send(self._exchange.request(request, version, future))
        return future

    def _check_open(self) -> None:
        if self.is_lost:
            raise ConnectionError(f"the connection to {self._transport.peer} is closed")

    # -- what the transport calls -----------------------------------------------------------

    def get_buffer(self) -> memoryview:
        return self._exchange.get_buffer()

    def bytes_received(self, count: int) -> None:
        try:
            for future, response in self._exchange.bytes_received(count):
                if not future.done():
                    future.set_result(response)
        except (FrameTooLarge, MalformedMessage) as error:
            # Nothing that comes after it can be trusted.
            self._failure = error
            self._transport.close()

    def bytes_sent(self) -> None:
        pass

    def connection_lost(self, error: BaseException | None) -> None:
        self.is_lost = True
        reason = self._failure or error or "it was closed"
        for future in self._exchange.abandon():
            if not future.done():
                future.set_exception(
                    ConnectionError(f"the connection to {self._transport.peer} was lost: {reason}")
                )
