"""An event loop whose time is a number: it jumps to the next timer instead of waiting for it.

A run is a pure function of its inputs. Nothing here reads a real clock, file or socket, and the
order of callbacks is the order in which they became due.

With random numbers of its own the loop is a busy one. Each turn takes time, so what becomes due
meanwhile finds callbacks before it in the queue, as on a real loop; without, whatever an event sets
off has come to its end before the next event. And tasks that are ready in the same turn run in any
order: asyncio promises one for callbacks, and none for tasks that wait for different things. Where
tasks have priorities, one of them goes before another again and again, until one is given another
priority: so few changes make orders that chance alone would rarely make (Burckhardt et al., "A
randomized scheduler with probabilistic guarantees of finding bugs").
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

# 2024-01-01, so that timestamps look like timestamps.
EPOCH_MS = 1_704_067_200_000

_TURN_S_MAX = 0.002

_PRIORITY_CHANGE_CHANCE = 0.01

_END_ROUNDS = 3


class NothingLeft(RuntimeError):
    """The test waits for something that no timer and no callback will bring about."""


class _JumpingSelector:
    """What the loop asks for events when it has nothing to run: time passes, that is all."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeft("every task waits, and no timer is set")
        self._loop.pass_time(timeout)
        return []

    def close(self) -> None:
        pass


Belongs = Callable[[Context], bool]


class Pause:
    """Of all that is called in some contexts: a process that was stopped. Time goes on without it,
    and what became due meanwhile is called when it ends, in the order in which it became due."""

    def __init__(self, loop: VirtualLoop, belongs: Belongs) -> None:
        self.belongs = belongs
        self.held: list[asyncio.Handle] = []
        self._loop = loop

    def end(self) -> None:
        self._loop.end_pause(self)


class _ReadyQueue(deque[asyncio.Handle]):
    """Whatever is called comes through here, timers too: so pauses hold it here."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[Pause] = []

    def append(self, handle: asyncio.Handle) -> None:
        for pause in self.pauses:
            if pause.belongs(context_of(handle)):
                pause.held.append(handle)
                return
        super().append(handle)


class VirtualLoop(asyncio.BaseEventLoop):
    _ready: _ReadyQueue
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, rng: random.Random | None = None, *, has_priorities: bool = False) -> None:
        super().__init__()
        self.now_s = 0.0
        self._rng = rng
        self._has_priorities = has_priorities
        self._priorities: weakref.WeakKeyDictionary[object, float] = weakref.WeakKeyDictionary()
        self._ready = _ReadyQueue()
        self._begun_pauses: list[Pause] = []
        self._selector = _JumpingSelector(self)

    def time(self) -> float:
        return self.now_s

    def pass_time(self, duration_s: float) -> None:
        """Whoever runs now takes so long; all others wait."""
        self.now_s += duration_s

    def pause(self, belongs: Belongs) -> Pause:
        """From the next turn on nothing is called in such a context, until the pause ends."""
        pause = Pause(self, belongs)
        self._begun_pauses.append(pause)
        return pause

    def end_pause(self, pause: Pause) -> None:
        if pause in self._begun_pauses:
            self._begun_pauses.remove(pause)
        else:
            self._ready.pauses.remove(pause)
        for handle in pause.held:
            self._ready.append(handle)

    def end_all_pauses(self) -> None:
        for pause in (*self._begun_pauses, *self._ready.pauses):
            self.end_pause(pause)

    def call_in(self, context: Context, callback: Callable[[], None]) -> None:
        """At once, unless that is paused: then when the pause ends."""
        pauses = (*self._ready.pauses, *self._begun_pauses)
        if any(pause.belongs(context) for pause in pauses):
            self.call_soon(callback, context=context)
        else:
            context.run(callback)

    def drop_callbacks(self, belongs: Belongs) -> None:
        """Those that were to be called in such a context are not, now or later. Tasks go on: they
        are to be cancelled."""
        held = [handle for pause in self._ready.pauses for handle in pause.held]
        for handle in (*self._ready, *self._scheduled, *held):
            if not _is_task(handle) and belongs(context_of(handle)):
                handle.cancel()

    def _process_events(self, event_list: list[Any]) -> None:
        """What the loop does at the beginning of each turn."""
        assert not event_list, "the selector knows no events"
        if self._begun_pauses:
            self._begin_pauses()
        if self._rng is not None:
            self.pass_time(self._rng.uniform(0, _TURN_S_MAX))
            self._shuffle_tasks(self._rng)

    def _begin_pauses(self) -> None:
        """Not in the middle of a turn, whose callbacks are counted before."""
        self._ready.pauses += self._begun_pauses
        self._begun_pauses.clear()
        handles = list(self._ready)
        self._ready.clear()
        for handle in handles:
            self._ready.append(handle)

    def _shuffle_tasks(self, rng: random.Random) -> None:
        """Callbacks stay where they are, and so does a task that waited for the same future as
        another or as a callback: those were promised an order."""
        causes = [_cause(handle) for handle in self._ready]
        counts = Counter(map(id, causes))
        free = [
            index
            for index, handle in enumerate(self._ready)
            if _is_task(handle) and counts[id(causes[index])] == 1
        ]
        if len(free) > 1:
            handles = list(self._ready)
            if self._has_priorities:
                shuffled = sorted(free, key=lambda index: self._priority(handles[index], rng))
            else:
                shuffled = rng.sample(free, len(free))
            for index, other in zip(free, shuffled, strict=True):
                self._ready[index] = handles[other]

    def _priority(self, handle: asyncio.Handle, rng: random.Random) -> float:
        task = _owner(handle)
        if task not in self._priorities or rng.random() < _PRIORITY_CHANGE_CHANCE:
            self._priorities[task] = rng.random()
        return self._priorities[task]

    def _write_to_self(self) -> None:
        pass  # There is no other thread that could wake this one.


def context_of(handle: asyncio.Handle) -> Context:
    context: Context = handle._context  # type: ignore[attr-defined]
    return context


def _is_task(handle: asyncio.Handle) -> bool:
    return isinstance(_owner(handle), asyncio.Task)


def _cause(handle: asyncio.Handle) -> object:
    """The future whose end it follows, or whatever else was to be called."""
    if handle._args and isinstance(handle._args[0], asyncio.Future):
        return handle._args[0]
    return _owner(handle)


def _owner(handle: asyncio.Handle) -> object:
    return getattr(getattr(handle, "_callback", None), "__self__", handle)


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


def run_virtual(
    main: Callable[[VirtualLoop], Coroutine[Any, Any, T]],
    *,
    rng: random.Random | None = None,
    has_priorities: bool = False,
) -> T:
    """Runs a coroutine to its end on a loop of its own; with `rng`, on a busy one."""
    loop = VirtualLoop(rng, has_priorities=has_priorities)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.end_all_pauses()
        for _ in range(_END_ROUNDS):  # Tasks may begin others while they end.
            loop.drop_callbacks(lambda _: True)
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(_pass_on())
        loop.close()


async def _pass_on() -> None:
    for _ in range(3):
        await asyncio.sleep(0)
