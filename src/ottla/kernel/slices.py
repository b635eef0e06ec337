"""Long work on the loop, done in slices: others wait for one of them, never for all of it.

A request of 8 MB may name a hundred thousand things, and a small one may ask for all that a broker
has. A coroutine that waits for nothing runs to its end where it was called, so whatever goes over
an unknown number of things does so by `Slices`. What must be whole (a plan, its append and its
replay) is done between two steps.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from ottla.kernel.clock import Clock

T = TypeVar("T")

SLICE_S = 0.001
STEPS_MAX = 512
_RUN = 1000
"""So many names are sorted at a time."""


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

    async def step(self) -> None:
        """Before each of the small things: now and then others go first."""
        self._step_count -= 1
        if not self._step_count or self._clock.monotonic_s() >= self._ends_s:
            await let_others_run()
            self._begin()

    async def of(self, things: Iterable[T]) -> AsyncIterator[T]:
        """One after another. What they are taken from must not change meanwhile: pass a copy of a
        table that others write to."""
        for thing in things:
            self._step_count -= 1
            if not self._step_count or self._clock.monotonic_s() >= self._ends_s:
                await let_others_run()
                self._begin()
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

    async def count(self, things: Iterable[T], is_counted: Callable[[T], bool]) -> int:
        number = 0
        async for thing in self.of(things):
            number += is_counted(thing)
        return number

    async def sorted(self, names: Iterable[str]) -> list[str]:
        """Sorts runs of them, and merges these."""
        rest = list(names)
        runs = [
            sorted(rest[first : first + _RUN]) async for first in self.of(range(0, len(rest), _RUN))
        ]
        return [name async for name in self.of(heapq.merge(*runs))]
