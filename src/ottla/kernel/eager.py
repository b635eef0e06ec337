"""Runs a coroutine where it is called, for as far as it goes without waiting.

Most requests of coordinators wait for nothing: their records are written by one call. A task and a
turn of the loop cost such a request more than its work does. Python 3.12 has tasks that start this
way; 3.11 does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Done(Generic[T]):
    """What a coroutine returned that never waited."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


def begin(coroutine: Coroutine[Any, Any, T]) -> Done[T] | asyncio.Task[T]:
    """Its value if it got through, or the task in which it goes on. Raises what it raises before
    it first waits. Until then there is no current task: it must not ask for one, as
    `asyncio.timeout` does."""
    try:
        awaited = coroutine.send(None)
    except StopIteration as stop:
        return Done(stop.value)
    return asyncio.get_running_loop().create_task(_Begun(coroutine, awaited))


class _Begun(Coroutine[Any, Any, T]):
    """A coroutine that waits for something by now, as one that a task begins: the first step gives
    what it waits for. It is no `async def` that awaits the other: a task that is cancelled before
    its first step would throw that one away, and the other, in the midst of its work, would
    neither hear of it nor clean up."""

    __slots__ = ("_awaited", "_coroutine", "_is_resumed")

    def __init__(self, coroutine: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        self._is_resumed = False

    def send(self, value: Any) -> Any:
        if self._is_resumed:
            return self._coroutine.send(value)
        self._is_resumed = True
        awaited, self._awaited = self._awaited, None
        return awaited

    def throw(self, *error: Any) -> Any:
        awaited, self._awaited = self._awaited, None
        if not self._is_resumed and awaited is not None:
            awaited.cancel()  # As a task does with what it waits for.
        self._is_resumed = True
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise NotImplementedError("it is made for a task, which sends")
