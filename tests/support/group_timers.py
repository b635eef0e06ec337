"""Timers of a group shard under a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.coordinators.result import Planned, Result
from tests.support.planned import planned


class _Due(NamedTuple):
    at_ms: int
    order: int
    operation: Callable[[], Result[Any]]


class ManualTimers:
    """Operations that come due are handed to `run`, as the runtime would write their records."""

    def __init__(self, run: Callable[[Callable[[], Result[Any]]], None]) -> None:
        self._run = run
        self._due: dict[str, _Due] = {}
        self._order = 0
        self.rung_count = 0
        self._now_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self._now_ms

    def schedule(self, name: str, delay_ms: int, operation: Callable[[], Planned[Any]]) -> None:
        self._order += 1
        at_ms = self._now_ms + max(0, delay_ms)
        self._due[name] = _Due(at_ms, self._order, lambda: planned(operation()))

    def cancel(self, name: str) -> None:
        self._due.pop(name, None)

    def is_scheduled(self, name: str) -> bool:
        return name in self._due

    @property
    def names(self) -> set[str]:
        return set(self._due)

    def cancel_all(self) -> None:
        self._due.clear()

    def advance(self, by_ms: int = 0) -> None:
        """Everything that comes due up to then runs in its order, each at its own time."""
        until_ms = self._now_ms + by_ms
        while True:
            due = [(due.at_ms, due.order, name) for name, due in self._due.items()]
            at_ms, _, name = min(due, default=(until_ms + 1, 0, ""))
            if at_ms > until_ms:
                break
            self._now_ms = max(self._now_ms, at_ms)
            self.rung_count += 1
            self._run(self._due.pop(name).operation)
        self._now_ms = until_ms
