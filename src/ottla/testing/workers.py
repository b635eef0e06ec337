"""Workers that take virtual time and no threads."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from ottla.testing.loop import VirtualLoop

DELAY_S_MAX = 0.002

P = ParamSpec("P")
T = TypeVar("T")


_calls_under_way: list[object] = []


def is_in_worker() -> bool:
    """Whether whoever asks would be in a thread of its own."""
    return bool(_calls_under_way)


class _Call(Generic[T]):
    """What was submitted. It is done at one moment, and known to be done when the time has passed
    that it took (a disk passes time): in between others run, or the process dies, and what it has
    written is there."""

    def __init__(self, workers: SimulatedWorkers, call: Callable[[], T]) -> None:
        self.future: asyncio.Future[T] = workers.loop.create_future()
        self._workers = workers
        self._call = call
        self._result: T | None = None
        self._error: Exception | None = None

    def run(self) -> float:
        """Returns when it will have ended. The loop itself has spent no time on it."""
        loop = self._workers.loop
        began_s = loop.now_s
        if not self.future.cancelled() and self._workers.is_open:
            # A thread of its own would have no loop: whoever asks for one there is refused.
            asyncio._set_running_loop(None)
            _calls_under_way.append(self)
            try:
                self._result = self._call()
            except Exception as error:
                self._error = error
            finally:
                _calls_under_way.pop()
                asyncio._set_running_loop(loop)
        ended_s, loop.now_s = loop.now_s, began_s
        return ended_s

    def end(self) -> None:
        if self._workers.is_dead:
            return
        if self.future.cancelled() or not self._workers.is_open:
            self.future.cancel()
        elif self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)  # type: ignore[arg-type]


class SimulatedWorkers:
    """Runs each call on the loop, after a delay drawn from the seed: calls overtake each other,
    as with threads, unless they are ordered."""

    def __init__(
        self, loop: VirtualLoop, rng: random.Random, *, delay_s_max: float = DELAY_S_MAX
    ) -> None:
        self.loop = loop
        self.is_open = True
        self.is_dead = False
        self._rng = rng
        self.delay_s_max = delay_s_max
        self._ordered: dict[str, _OrderedWorkers] = {}

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        call = _Call(self, lambda: function(*args, **kwargs))
        self.loop.call_at(self.due_s(), self._run, call)
        return call.future

    def ordered(self, name: str) -> _OrderedWorkers:
        return self._ordered.setdefault(name, _OrderedWorkers(self))

    def close(self) -> None:
        self.is_open = False

    def die(self) -> None:
        """With its process: nothing more is done, and nobody hears even that."""
        self.is_open = False
        self.is_dead = True

    def due_s(self) -> float:
        return self.loop.now_s + self._rng.uniform(0, self.delay_s_max)

    def _run(self, call: _Call[Any]) -> None:
        ended_s = call.run()
        if ended_s > self.loop.now_s:
            self.loop.call_at(ended_s, call.end)
        else:
            call.end()


class _OrderedWorkers:
    def __init__(self, workers: SimulatedWorkers) -> None:
        self._workers = workers
        self._last_s = 0.0
        self._waiting: deque[_Call[Any]] = deque()
        self._is_busy = False

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        # The loop's timers are a heap, which does not keep the order of equal times: so each is
        # due a little after the one before.
        self._last_s = max(self._workers.due_s(), self._last_s + 1e-6)
        call = _Call(self._workers, lambda: function(*args, **kwargs))
        self._workers.loop.call_at(self._last_s, self._come, call)
        return call.future

    def ordered(self, name: str) -> _OrderedWorkers:
        return self._workers.ordered(name)

    def close(self) -> None:
        pass

    def _come(self, call: _Call[Any]) -> None:
        self._waiting.append(call)
        if not self._is_busy:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting:
            call = self._waiting.popleft()
            ended_s = call.run()
            if ended_s > self._workers.loop.now_s:
                self._is_busy = True
                self._workers.loop.call_at(ended_s, self._end, call)
                return
            call.end()

    def _end(self, call: _Call[Any]) -> None:
        self._is_busy = False
        call.end()  # Before the next has begun, so that the loop hears of them in their order.
        self._go_on()
