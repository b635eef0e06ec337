"""The seam to time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, for timestamps that are stored or shown."""
        ...

    def monotonic_s(self) -> float:
        """Time that never goes back, for intervals."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Calls back on the loop. Must be called on the loop."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Asked twice for every append: a method around it would take as long as itself.
    monotonic_s = staticmethod(time.monotonic)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback)
