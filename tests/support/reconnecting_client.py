"""A client of a simulated broker that may be dead: it connects again with its next request."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from ottla.client.connection import ClientConnection
from ottla.kernel.transport import Network
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

TIMEOUT_S = 1.0

UNREACHABLE = (TimeoutError, ConnectionError)
"""Whether the request was carried out is not known then."""


class ReconnectingClient:
    def __init__(self, network: Network, port: int) -> None:
        self._network = network
        self._port = port
        self._connection: ClientConnection | None = None

    async def call(self, request: Request, response_class: type[R], version: int) -> R:
        """Raises one of UNREACHABLE."""
        if self._connection is None:
            self._connection = await ClientConnection.open(self._network, "localhost", self._port)
        try:
            return await asyncio.wait_for(
                self._connection.call(request, response_class, version), timeout=TIMEOUT_S
            )
        except UNREACHABLE:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
