"""An event loop whose time is a number: it jumps to the next timer instead of waiting for it.

A run is a pure function of its inputs. Nothing here reads a real clock, file or socket, and the
order of callbacks is the order in which they became due.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# 2024-01-01, so that timestamps look like timestamps.
EPOCH_MS = 1_704_067_200_000


class NothingLeft(RuntimeError):
    """The test waits for something that no timer and no callback will bring about."""


class _JumpingSelector:
    """What the loop asks for events when it has nothing to run: time passes, that is all."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeft("every task waits, and no timer is set")
        self._loop.now_s += timeout
        return []

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._selector = _JumpingSelector(self)

    def time(self) -> float:
        return self.now_s

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "the selector knows no events"

    def _write_to_self(self) -> None:
        pass  # There is no other thread that could wake this one.


class VirtualClock:
    """The clock of a virtual loop. Each simulated machine may have its own skew."""

    def __init__(self, loop: VirtualLoop, *, skew_ms: int = 0) -> None:
        self._loop = loop
        self._timers: weakref.WeakSet[asyncio.TimerHandle] = weakref.WeakSet()
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + int(self._loop.now_s * 1000)

    def monotonic_s(self) -> float:
        return self._loop.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        timer = self._loop.call_later(delay_s, callback)
        self._timers.add(timer)
        return timer

    def stop(self) -> None:
        """With its process: what was to happen later does not."""
        for timer in self._timers:
            timer.cancel()


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Runs a coroutine to its end on a loop of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(_pass_on())
        loop.close()


async def _pass_on() -> None:
    for _ in range(3):
        await asyncio.sleep(0)
