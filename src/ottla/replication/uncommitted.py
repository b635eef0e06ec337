"""What of a partition has its place in the log and is not committed, and who waits for it.

An append goes through three states, in the order of the places:

    writing ── written here, synced where asked for ──▶ waiting ── high watermark ──▶ committed

Writes end in any order, and count in the order of their places.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.kernel.errors import KafkaError

logger = logging.getLogger(__name__)

Settled = Callable[[KafkaError | None], None]
"""Called once: with None when it came to pass, or with the error that keeps it from that."""


class Step:
    """One append on its way."""

    __slots__ = ("byte_count", "end_offset", "is_written")

    def __init__(self, end_offset: int, byte_count: int) -> None:
        self.end_offset = end_offset
        self.byte_count = byte_count
        self.is_written = False


class _Parked(NamedTuple):
    end_offset: int
    on_settled: Settled


class Uncommitted:
    """Owned by the leader of a partition, for one leader epoch. Empty in the common case of one
    replica, where an append is written and committed by one call."""

    __slots__ = (
        "_end_moved",
        "_failure",
        "_parked_until_committed",
        "_parked_until_written",
        "waiting",
        "writing",
    )

    def __init__(self, end_moved: Callable[[int], None]) -> None:
        self._end_moved = end_moved
        """Called with the end of each append that has been written, in their order."""
        self.writing: deque[Step] = deque()
        self.waiting: deque[Step] = deque()
        self._parked_until_written: deque[_Parked] = deque()
        self._parked_until_committed: deque[_Parked] = deque()
        self._failure: KafkaError | None = None

    @property
    def is_empty(self) -> bool:
        """Whether all that has a place is committed. After a failure that is never said again."""
        return not self.writing and not self.waiting and self._failure is None

    def begin(self, end_offset: int, byte_count: int) -> Step:
        step = Step(end_offset, byte_count)
        self.writing.append(step)
        return step

    def finish(self, step: Step) -> None:
        """It is as durable here as it is to be."""
        step.is_written = True
        writing, parked = self.writing, self._parked_until_written
        while writing and writing[0].is_written:
            first = writing.popleft()
            self.waiting.append(first)
            self._end_moved(first.end_offset)
            _settle(parked, first.end_offset)

    def commit(self, high_watermark: int) -> int:
        """Up to there. Returns the number of bytes that are committed now; `settle` calls back
        those who waited for it, once readers can see it."""
        byte_count = 0
        waiting = self.waiting
        while waiting and waiting[0].end_offset <= high_watermark:
            byte_count += waiting.popleft().byte_count
        return byte_count

    def settle(self, high_watermark: int) -> None:
        _settle(self._parked_until_committed, high_watermark)

    def fail(self, error: KafkaError) -> None:
        """Nobody can say what becomes of any of it: the disk has failed, or another leads."""
        self._failure = error
        self.writing.clear()
        self.waiting.clear()
        for parked in (self._parked_until_written, self._parked_until_committed):
            while parked:
                _call(parked.popleft().on_settled, error)

    def when_written(self, on_settled: Settled) -> None:
        """Calls back when all that has a place now is written here, at once where it is."""
        if self.writing:
            self._parked_until_written.append(_Parked(self.writing[-1].end_offset, on_settled))
        else:
            on_settled(self._failure)

    def when_committed(self, on_settled: Settled) -> None:
        """Calls back when all that has a place now is committed, at once where it is."""
        last = self.writing or self.waiting
        if last:
            self._parked_until_committed.append(_Parked(last[-1].end_offset, on_settled))
        else:
            on_settled(self._failure)


def _settle(parked: deque[_Parked], end_offset: int) -> None:
    while parked and parked[0].end_offset <= end_offset:
        _call(parked.popleft().on_settled, None)


def _call(on_settled: Settled, error: KafkaError | None) -> None:
    """A bug of one who waits is not to strand those behind."""
    try:
        on_settled(error)
    except Exception:
        logger.exception("what was to follow an append failed")
