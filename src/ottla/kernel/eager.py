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
    return asyncio.get_running_loop().create_task(_go_on(_Begun(coroutine, awaited)))


async def _go_on(begun: _Begun[T]) -> T:
    return await begun


class _Begun(Generic[T]):
    """A coroutine that waits for something by now, as something to await."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._coroutine = coroutine
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine, awaited = self._coroutine, self._awaited
        try:
            while True:
                try:
                    value = yield awaited
                except GeneratorExit:
                    coroutine.close()
                    raise
                except BaseException as error:  # A cancellation, most of all.
                    awaited = coroutine.throw(error)
                else:
                    awaited = coroutine.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result
