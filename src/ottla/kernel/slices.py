"""Long work on the loop, done in slices: others wait for one of them, never for all of it.

A request of 8 MB may name a hundred thousand things, and a small one may ask for all that a broker
has. A coroutine that waits for nothing runs to its end where it was called, so whatever goes over
an unknown number of things does so by `Slices`. What knows neither clock nor loop, as the state of
a coordinator, is written as `Steps`: it yields wherever others may go first, and whoever runs it
decides whether they do.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from ottla.kernel.clock import Clock

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work in small steps, of some microseconds each."""

SLICE_S = 0.001
STEPS_MAX = 512
_RUN = 256
"""So many things are sorted at a time."""


def at_once(steps: Steps[T]) -> T:
    """For what is known to be little."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def sorted_in_steps(things: Iterable[T], key: Callable[[T], Any] | None = None) -> Steps[list[T]]:
    """Sorts runs of them, and merges these."""
    rest = list(things)
    runs: list[list[T]] = []
    for first in range(0, len(rest), _RUN):
        runs.append(sorted(rest[first : first + _RUN], key=key))  # type: ignore[arg-type,type-var]
        yield
    if len(runs) < 2:
        return runs[0] if runs else []
    merged: list[T] = []
    for thing in heapq.merge(*runs, key=key):  # type: ignore[arg-type]
        merged.append(thing)
        yield
    return merged


def taking(things: list[T]) -> Iterator[T]:
    """One after another, out of the list. For what nobody else refers to any more: to free ten
    thousand logs takes a tenth of a second, in one go if the list goes in one go."""
    things.reverse()
    while things:
        yield things.pop()


async def let_others_run() -> None:
    """The loop looks at its sockets and goes through all that is ready."""
    await asyncio.sleep(0)


class Slices:
    """Owned by one request, or by one run of a background job. A slice ends by the broker's clock;
    and after so many steps, since in simulated time all work is done in no time."""

    __slots__ = ("_clock", "_ends_s", "_step_count", "has_paused")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin()
        self.has_paused = False
        """Whether others ran meanwhile."""

    def _begin(self) -> None:
        self.has_paused = True
        self._step_count = STEPS_MAX
        self._ends_s = self._clock.monotonic_s() + SLICE_S

    def is_over(self) -> bool:
        """Whether this slice is, one step later. For whoever then calls `pause`."""
        self._step_count -= 1
        return not self._step_count or self._clock.monotonic_s() >= self._ends_s

    async def pause(self) -> None:
        await let_others_run()
        self._begin()

    async def step(self) -> None:
        """Before each of the small things: now and then others go first."""
        if self.is_over():
            await self.pause()

    async def of(self, things: Iterable[T]) -> AsyncIterator[T]:
        """One after another. What they are taken from must not change meanwhile: pass a copy of a
        table that others write to."""
        for thing in things:
            if self.is_over():
                await self.pause()
            yield thing

    async def distinct(
        self, asked: Iterable[T], name_of: Callable[[T], Hashable] | None = None
    ) -> list[T]:
        """The first of those that have one name. A name takes a few bytes of a request, and what is
        answered for it thousands: 24 KB that described one topic again and again cost 170 MB."""
        first: dict[Hashable, T] = {}
        async for one in self.of(asked):
            first.setdefault(one if name_of is None else name_of(one), one)
        return list(first.values())

    async def empty(self, table: dict[Any, Any]) -> None:
        """Before it is dropped: to free a hundred thousand tuples at once takes milliseconds."""
        while table:
            table.popitem()
            await self.step()

    async def count(self, things: Iterable[T], is_counted: Callable[[T], bool]) -> int:
        number = 0
        async for thing in self.of(things):
            number += is_counted(thing)
        return number

    async def sorted(self, names: Iterable[str]) -> list[str]:
        return await self.run(sorted_in_steps(names))

    async def run(self, steps: Steps[T]) -> T:
        try:
            while True:
                next(steps)
                await self.step()
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
