"""How late the loop is: how long its longest turn kept everything else waiting."""

from __future__ import annotations

import asyncio

from ottla.kernel.clock import Clock

INTERVAL_S = 0.25
"""A turn that is longer is always seen, a shorter one now and then."""
PERIOD_S = 60.0


class LoopLag:
    """Owned by the broker, from start to stop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._max_s = 0.0
        self._max_before_s = 0.0

    @property
    def max_s(self) -> float:
        """Of the last minute or two."""
        return max(self._max_s, self._max_before_s)

    async def run(self) -> None:
        """For ever."""
        while True:
            slept_s = self._clock.monotonic_s()
            await asyncio.sleep(INTERVAL_S)
            now_s = self._clock.monotonic_s()
            self._max_s = max(self._max_s, now_s - slept_s - INTERVAL_S)
            if now_s - self._began_s >= PERIOD_S:
                self._began_s = now_s
                self._max_before_s, self._max_s = self._max_s, 0.0
