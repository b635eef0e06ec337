"""Workers that take virtual time and no threads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ottla.testing.loop import VirtualLoop

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedWorkers:
    """Runs each call on the loop, after a delay drawn from the seed: calls overtake each other,
    as with threads, unless they are ordered."""

    def __init__(
        self, loop: VirtualLoop, rng: random.Random, *, delay_s_max: float = 0.002
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._delay_s_max = delay_s_max
        self._ordered: dict[str, _OrderedWorkers] = {}
        self._is_closed = False

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        return self.submit_at(self.due_s(), lambda: function(*args, **kwargs))

    def ordered(self, name: str) -> _OrderedWorkers:
        return self._ordered.setdefault(name, _OrderedWorkers(self))

    def close(self) -> None:
        self._is_closed = True

    def due_s(self) -> float:
        return self._loop.now_s + self._rng.uniform(0, self._delay_s_max)

    def submit_at(self, due_s: float, call: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()

        def run() -> None:
            if future.cancelled() or self._is_closed:
                future.cancel()
                return
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)

        self._loop.call_at(due_s, run)
        return future


class _OrderedWorkers:
    def __init__(self, workers: SimulatedWorkers) -> None:
        self._workers = workers
        self._last_s = 0.0

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        # The loop's timers are a heap, which does not keep the order of equal times: so each is
        # due a little after the one before.
        self._last_s = max(self._workers.due_s(), self._last_s + 1e-6)
        return self._workers.submit_at(self._last_s, lambda: function(*args, **kwargs))

    def ordered(self, name: str) -> _OrderedWorkers:
        return self._workers.ordered(name)

    def close(self) -> None:
        pass
