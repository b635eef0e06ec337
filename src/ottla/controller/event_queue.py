"""One queue, one consumer: the controller does one thing at a time, so that nothing it reads
from its picture of the cluster changes before it has written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

_Event = tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]


class EventQueue:
    """Owned by the controller. Events that were not reached when it closes are cancelled."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._consumer: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._consumer = asyncio.get_running_loop().create_task(self._consume())

    async def run(self, event: Callable[[], Awaitable[T]]) -> T:
        """Waits for its turn, runs it, and returns or raises what it does. An event that has
        begun goes on when whoever waits for it gives up."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._events.put_nowait((event, done))
        return await done

    def post(self, event: Callable[[], Awaitable[None]]) -> None:
        """For an event that nobody waits for. It must not raise."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events.put_nowait((event, done))

    async def _consume(self) -> None:
        while True:
            event, done = await self._events.get()
            if done.cancelled():
                continue
            try:
                result = await event()
            except asyncio.CancelledError:
                done.cancel()
                raise
            except Exception as error:
                if not done.cancelled():
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(result)

    async def close(self) -> None:
        if self._consumer is not None:
            self._consumer.cancel()
            await asyncio.wait([self._consumer])
            self._consumer = None
        while not self._events.empty():
            self._events.get_nowait()[1].cancel()
