"""The operations of a shard, one after another, also where one takes so long that it is done in
slices.

Nearly all are done within a slice, where they are called, and nobody ever waits here. A longer one
keeps the shard: it goes on in a task, a slice at a time, and who comes meanwhile waits, in order.
So each sees what those before it have done, and none sees half of it. The task is the shard's and
not the client's: one that hangs up must not leave half a replay behind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar

from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices, Steps

T = TypeVar("T")

_UNTIMED = range(4)
"""So many steps before the first look at the clock: most operations have no more."""


class OperationQueue:
    """Owned by a shard, and as old as it."""

    __slots__ = ("_clock", "_is_closed", "_running", "_waiting", "is_busy")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._running: asyncio.Task[object] | None = None
        self._is_closed = False
        self.is_busy = False
        """Whether an operation is under way, or one that waited is to begin: others call `turn`
        first."""

    async def turn(self) -> None:
        """Returns when it is the caller's turn, who calls `run` or `pass_on` next. Raises
        NOT_COORDINATOR when the shard is lost meanwhile."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            # Else it is passed over when its turn comes.
            if not waiting.cancelled() and waiting.exception() is None:
                self.pass_on()  # It had come already.
            raise

    def run(self, steps: Steps[T]) -> T | asyncio.Task[T]:
        """What it returns if it is done within a slice, or the task in which it goes on. Raises
        what it raises."""
        is_long = False
        try:
            for _ in _UNTIMED:
                next(steps)
            slices = Slices(self._clock)
            while not slices.is_over():
                next(steps)
            is_long = True
            return self._go_on_later(steps, slices)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            if self.is_busy and not is_long:
                self.pass_on()

    def pass_on(self) -> None:
        """To the next one, who begins when the loop comes to it."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self.is_busy = False

    def close(self) -> None:
        """The shard is lost: what is under way goes no further."""
        self._is_closed = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
        self._waiting.clear()

    def _go_on_later(self, steps: Steps[T], slices: Slices) -> asyncio.Task[T]:
        self.is_busy = True
        task = asyncio.get_running_loop().create_task(self._go_on(steps, slices))
        self._running = task  # The loop itself does not keep it.
        task.add_done_callback(_ignore_error)
        return task

    async def _go_on(self, steps: Steps[T], slices: Slices) -> T:
        try:
            while True:
                await slices.pause()
                if self._is_closed:
                    raise KafkaError(ErrorCode.NOT_COORDINATOR)
                while not slices.is_over():
                    next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            steps.close()
            self._running = None
            self.pass_on()


def _ignore_error(task: asyncio.Task[T]) -> None:
    """Whoever asked for it may be gone, and is told otherwise."""
    if not task.cancelled():
        task.exception()
