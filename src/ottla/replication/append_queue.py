"""Appends of clients that wait for their place in the log, one behind the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.errors import KafkaError
from ottla.replication.append_memory import AppendMemory
from ottla.storage.pending_write import Appended
from ottla.storage.verification import VerificationGuard

if TYPE_CHECKING:
    from ottla.replication.leader import Marker


class QueuedAppend(NamedTuple):
    records: memoryview
    acks: int
    produce_version: int | None
    """None for what this broker has made itself: that is not validated."""
    timeout_ms: int | None
    takes_long: bool
    """To validate it at once was tried, and given up."""
    guard: VerificationGuard | None
    marker: Marker | None
    on_placed: Callable[[], None] | None
    done: asyncio.Future[Appended]


class AppendQueue:
    """Owned by the leader of a partition, for one leader epoch. Empty in the common case, where an
    append is one call. A crash loses what waits here; none of it was acknowledged."""

    __slots__ = ("_append", "_drain", "_memory", "waiting")

    def __init__(
        self, memory: AppendMemory, append: Callable[[QueuedAppend], Awaitable[None]]
    ) -> None:
        """`append` returns when the next one may begin, and settles `done` then or later."""
        self._memory = memory
        self._append = append
        self.waiting: deque[QueuedAppend] = deque()
        self._drain: asyncio.Task[None] | None = None

    def add(self, queued: QueuedAppend) -> asyncio.Future[Appended]:
        """The buffer of its records may be reused. Raises KafkaError where too much waits."""
        self._memory.take(len(queued.records))
        copied = memoryview(bytearray(queued.records))
        self.waiting.append(queued._replace(records=copied))
        if self._drain is None:
            self._drain = asyncio.create_task(self._drain_all())
        return queued.done

    async def _drain_all(self) -> None:
        while self.waiting:
            queued = self.waiting[0]
            try:
                await self._append(queued)
            except Exception as error:  # Whoever waits for it hears of it.
                if not queued.done.done():
                    queued.done.set_exception(error)
            self.waiting.popleft()
            self._memory.give_back(len(queued.records))
        self._drain = None

    def refuse_waiting(self, error: Callable[[], KafkaError]) -> None:
        """All but the one that is under way."""
        while len(self.waiting) > 1:
            refused = self.waiting.pop()
            self._memory.give_back(len(refused.records))
            if not refused.done.done():
                refused.done.set_exception(error())

    async def drained(self) -> None:
        if self._drain is not None:
            await asyncio.wait([self._drain])
