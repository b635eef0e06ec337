"""Pauses of the garbage collector, kept short.

A full collection looks at all that there is, and the loop waits: with ten thousand partitions and
as many groups for a tenth of a second, again whenever a quarter more is there than at the last one.
But what has survived one is nearly always there to stay. So it is frozen, and the next one looks
only at what came since.

What is frozen is still freed when nothing refers to it; only a cycle of frozen objects is not. So
what comes and goes in a broker's life should leave no cycles behind. Should it do so all the same,
they are found: after as many full collections as at the last such look (each has let through about
as much), one looks at everything again. Nothing can slice that. It takes some 50 ms with 500
partitions and 200 with 10,000, at most once in a hundred full collections, of which an idle broker
makes none; and each time it takes twice as many to come to the next: ten of them until 100,000.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THRESHOLDS = 700, 5, 1
"""A full collection at every second one of the old: it looks at some 8,000 objects."""


_FIRST_LOOK = 100


class _Survivors:
    """Frozen, but for a look at everything now and then."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._count = 0
        self._next_look = _FIRST_LOOK

    def collected(self, phase: str, info: dict[str, int]) -> None:
        """In any thread."""
        if phase != "stop" or info["generation"] != 2:
            return
        gc.freeze()
        self._count += 1
        if self._count == self._next_look and not self._loop.is_closed():
            self._next_look *= 2
            self._loop.call_soon_threadsafe(look_at_everything)


def look_at_everything() -> None:
    """Twice: the collector waits until a quarter more is there than its last full look has found,
    which would be a long pause again. The second look finds nothing."""
    gc.unfreeze()
    gc.collect()
    gc.collect()


def freeze_survivors(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, for as long as the loop runs. What is there is frozen now, unseen: a look takes
    five milliseconds and finds a hundred kilobytes."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(_Survivors(loop).collected)


def weakly(method: Callable[P, T]) -> Callable[P, T]:
    """For what an object hands to a part of its own, which does not outlive it: the two would be a
    cycle otherwise."""
    reference = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        found = reference()
        assert found is not None, "a part outlives what it is a part of"
        return found(*args, **kwargs)

    return call
