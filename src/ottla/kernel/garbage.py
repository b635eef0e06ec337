"""Pauses of the garbage collector, kept short.

A full collection looks at all that there is, and the loop waits: with ten thousand partitions and
as many groups for a tenth of a second, again whenever a quarter more is there than at the last one.
But what has survived one is nearly always there to stay. So it is frozen, and the next one looks
only at what came since.

What is frozen is still freed when nothing refers to it; only a cycle of frozen objects is not. So
what comes and goes in a broker's life must leave no cycles behind.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THRESHOLDS = 700, 10, 1
"""A full collection at every second one of the old: it looks at some 15,000 objects."""


def freeze_survivors() -> None:
    """From now on, for as long as the process lives. What is there is frozen now, unseen: a look
    takes five milliseconds and finds a hundred kilobytes."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    if _freeze not in gc.callbacks:
        gc.callbacks.append(_freeze)


def _freeze(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def weakly(method: Callable[P, T]) -> Callable[P, T]:
    """For what an object hands to a part of its own, which does not outlive it: the two would be a
    cycle otherwise."""
    reference = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        found = reference()
        assert found is not None, "a part outlives what it is a part of"
        return found(*args, **kwargs)

    return call
