"""A client of a simulated broker that sends several requests before it hears of the first."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from ottla.client.connection import ClientConnection
from ottla.kernel.eager import Done, begin
from ottla.kernel.transport import Network
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import Request

ANSWER_S_MAX = 60.0
"""Longer than any disk is slow: whoever has no answer by then will never have one."""

_PAUSE_S = 0.02
_GAP_S_MAX = 0.01


class InFlight:
    """Owned by a simulated client. Only a crash of the broker keeps it from an answer."""

    def __init__(self, network: Network, port: int, rng: random.Random) -> None:
        self._network = network
        self._port = port
        self._rng = rng
        self._connection: ClientConnection | None = None

    async def ask(self, *requests: tuple[Request, int]) -> list[Any]:
        """Sends one after another, each in its version, without waiting for answers, and returns
        these: None for one that the connection was lost before, and for a Produce that asks for
        none."""
        connection = await self._connected()
        answers: list[asyncio.Task[Any] | None] = []
        for request, version in requests:
            if answers and self._rng.random() < 0.5:
                await asyncio.sleep(self._rng.uniform(0, _GAP_S_MAX))
            answers.append(self._send(connection, request, version))
        waiting = [answer for answer in answers if answer is not None]
        if waiting:
            _, missing = await asyncio.wait(waiting, timeout=ANSWER_S_MAX)
            assert not missing, f"{len(missing)} of {len(waiting)} requests are never answered"
        if connection.is_lost:
            self.close()
        return [None if answer is None else _answer(answer) for answer in answers]

    def _send(
        self, connection: ClientConnection, request: Request, version: int
    ) -> asyncio.Task[Any] | None:
        try:
            if isinstance(request, ProduceRequest) and request.acks == 0:
                connection.send_unanswered(request, version)
                return None
            # What sends it is to run now: tasks may begin in any order.
            response_class = APIS[ApiKey(request.API_KEY)].response
            begun = begin(connection.call(request, response_class, version))
        except ConnectionError:
            return None
        assert not isinstance(begun, Done), "an answer takes time"
        return begun

    async def ask_one(self, request: Request, version: int) -> Any:
        """Its answer, or None."""
        (answer,) = await self.ask((request, version))
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self) -> ClientConnection:
        while self._connection is None or self._connection.is_lost:
            try:
                self._connection = await ClientConnection.open(
                    self._network, "localhost", self._port
                )
            except ConnectionError:
                await asyncio.sleep(_PAUSE_S)
        return self._connection


def _answer(answer: asyncio.Task[Any]) -> Any:
    return None if isinstance(answer.exception(), ConnectionError) else answer.result()
