"""How long a simulated disk takes: mostly next to nothing, and for a while too long."""

from __future__ import annotations

import random
from typing import Protocol

_WRITE_S_MAX = 0.001
_SYNC_S_MAX = 0.01
_SLOW_S_MAX = 0.2
_SLOW_PHASE_S_MAX = 1.0
_SLOW_CHANCE = 0.02


class Timekeeper(Protocol):
    """A virtual loop. Time that passes in a worker's call is the worker's."""

    now_s: float

    def pass_time(self, duration_s: float) -> None: ...


class DiskPace:
    """Owned by a simulated disk. Now and then a write finds the disk slow, and it stays so for a
    phase: appends then wait in a queue, several at a time, beside all that goes on."""

    def __init__(self, rng: random.Random, loop: Timekeeper) -> None:
        self._rng = rng
        self._loop = loop
        self._slow_until_s = 0.0
        self._longest_s: dict[str, float] = {"write_at": _WRITE_S_MAX, "sync": _SYNC_S_MAX}

    def take_time(self, operation: str) -> None:
        longest_s = self._longest_s.get(operation)
        if longest_s is None:
            return
        rng, loop = self._rng, self._loop
        if loop.now_s >= self._slow_until_s and rng.random() < _SLOW_CHANCE:
            self._slow_until_s = loop.now_s + rng.uniform(0, _SLOW_PHASE_S_MAX)
        is_slow = loop.now_s < self._slow_until_s
        loop.pass_time(rng.uniform(0, _SLOW_S_MAX if is_slow else longest_s))
