"""Questions to other brokers that fit many into one request: one request at a time to each broker,
with all that came while the one before was on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.kernel.ids import BrokerId

Q = TypeVar("Q")
A = TypeVar("A")

QUESTIONS_MAX = 1000
"""In one request."""


class PeerBatches(Generic[Q, A]):
    """Owned by whoever asks. What waits in a crash is asked again by those who wanted to know."""

    def __init__(
        self,
        send: Callable[[BrokerId, Sequence[Q]], Awaitable[Sequence[A]]],
        key_of: Callable[[Q], Hashable],
    ) -> None:
        """Answers come in the order of the questions; what is raised is the answer to all of them.
        Of two questions with one key the second goes with the next request: the response could not
        tell them apart."""
        self._send = send
        self._key_of = key_of
        self._waiting: dict[BrokerId, list[_Asked[Q, A]]] = {}
        self._senders: dict[BrokerId, asyncio.Task[None]] = {}

    async def ask(self, broker_id: BrokerId, question: Q) -> A:
        """Raises what `send` raises."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[A] = loop.create_future()
        self._waiting.setdefault(broker_id, []).append(_Asked(question, answered))
        if broker_id not in self._senders:
            self._senders[broker_id] = loop.create_task(self._send_all(broker_id))
        return await answered

    async def _send_all(self, broker_id: BrokerId) -> None:
        try:
            while batch := self._next_batch(broker_id):
                await self._send_batch(broker_id, batch)
        finally:
            del self._senders[broker_id]

    async def _send_batch(self, broker_id: BrokerId, batch: Sequence[_Asked[Q, A]]) -> None:
        try:
            answers = await self._send(broker_id, [asked.question for asked in batch])
            assert len(answers) == len(batch), "each question has its answer"
        except Exception as error:  # Whoever waits hears of it, be it a bug of ours.
            for asked in batch:
                if not asked.answered.done():
                    asked.answered.set_exception(error)
            return
        for asked, answer in zip(batch, answers, strict=True):
            if not asked.answered.done():
                asked.answered.set_result(answer)

    def _next_batch(self, broker_id: BrokerId) -> list[_Asked[Q, A]]:
        batch: dict[Hashable, _Asked[Q, A]] = {}
        rest: list[_Asked[Q, A]] = []
        for asked in self._waiting.pop(broker_id, []):
            if asked.answered.done():
                continue  # Whoever asked has gone.
            key = self._key_of(asked.question)
            if key in batch or len(batch) == QUESTIONS_MAX:
                rest.append(asked)
            else:
                batch[key] = asked
        if rest:
            self._waiting[broker_id] = rest
        return list(batch.values())


class _Asked(NamedTuple, Generic[Q, A]):
    question: Q
    answered: asyncio.Future[A]
