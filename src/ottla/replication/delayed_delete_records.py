"""DeleteRecords requests that wait until no live replica has what they delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.kernel.errors import KafkaError


class DelayedDeleteRecords:
    """Owned by the leader of a partition, for one leader epoch. A crash loses who waits; that the
    log begins later is in its checkpoint."""

    __slots__ = ("_waiting", "low_watermark")

    def __init__(self, low_watermark: Callable[[], int]) -> None:
        self.low_watermark = low_watermark
        """The offset before which no live replica has a record."""
        self._waiting: dict[asyncio.Future[int], int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def until(self, offset: int) -> asyncio.Future[int]:
        """Done with the low watermark when that has reached the offset. Whoever waits no longer
        cancels it."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[done] = offset
        done.add_done_callback(self._leave)
        self.check()
        return done

    def check(self) -> None:
        """When a follower has told where its log begins, or may be gone."""
        if not self._waiting:
            return
        low_watermark = self.low_watermark()
        for done, offset in self._waiting.items():
            if low_watermark >= offset and not done.done():
                done.set_result(low_watermark)

    def fail(self, error: KafkaError) -> None:
        """Another broker leads."""
        for done in self._waiting:
            if not done.done():
                done.set_exception(error)

    def _leave(self, done: asyncio.Future[int]) -> None:
        del self._waiting[done]
