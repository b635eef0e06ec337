"""A fetch that waits until enough bytes came, or its time is over."""

from __future__ import annotations

import asyncio

from ottla.kernel.clock import Clock


class Wait:
    """Made by the session for each time that its fetch waits, and gone with it."""

    def __init__(
        self, clock: Clock, max_wait_s: float, missing_byte_count: int, *, is_committed_only: bool
    ) -> None:
        self.is_committed_only = is_committed_only
        self._missing_byte_count = missing_byte_count
        self._future = asyncio.get_running_loop().create_future()
        self._timer = clock.call_later(max_wait_s, self.finish)

    def bytes_added(self, byte_count: int) -> None:
        self._missing_byte_count -= byte_count
        if self._missing_byte_count <= 0:
            self.finish()

    def finish(self) -> None:
        self._timer.cancel()
        if not self._future.done():
            self._future.set_result(None)

    @property
    def is_over(self) -> bool:
        return self._future.done()

    async def finished(self) -> None:
        try:
            await self._future
        finally:
            self._timer.cancel()
