"""The seam to work off the loop: calls that release the GIL and would otherwise block it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THINGS_AT_ONCE = 256


class Workers(Protocol):
    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Runs the function elsewhere, in no particular order; the future is done on the loop."""
        ...

    def ordered(self, name: str) -> Workers:
        """Workers that run one call after another, in the order of submission: same name,
        same queue."""
        ...

    def close(self) -> None:
        """Waits for what runs, drops what has not started."""
        ...


def give_way() -> None:
    """In a thread that computes in Python: whoever waits for the GIL, as the loop may, has it now,
    and not only after the five milliseconds that Python lets a thread have it."""
    time.sleep(0)


def giving_way(things: Iterable[T]) -> Iterator[T]:
    """In a thread that goes over records in Python, at one or two microseconds each: without it a
    timer of the loop beside such a thread is late by those five milliseconds, nearly every time."""
    for number, thing in enumerate(things, 1):
        yield thing
        if not number % _THINGS_AT_ONCE:
            give_way()


class ThreadWorkers:
    """Threads, started when first needed. Owned by the broker; closed last."""

    def __init__(self, *, name: str = "worker", thread_count_max: int = 4) -> None:
        self._pool = ThreadPoolExecutor(thread_count_max, thread_name_prefix=name)
        self._ordered: dict[str, ThreadWorkers] = {}

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        return asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))

    def ordered(self, name: str) -> Workers:
        if name not in self._ordered:
            self._ordered[name] = ThreadWorkers(name=name, thread_count_max=1)
        return self._ordered[name]

    def close(self) -> None:
        for workers in self._ordered.values():
            workers.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
