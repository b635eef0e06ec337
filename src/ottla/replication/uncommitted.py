"""What of a partition has its place in the log and is not committed, and who waits for it.

An append goes through three states, in the order of the places:

    writing ── written here, synced where asked for ──▶ waiting ── high watermark ──▶ committed

Writes end in any order, and count in the order of their places.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable

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


STEPS_MAX = 1000
"""Of one partition. The high watermark may stand still for days while acks=1 goes on: from here on
steps are added to the last one, and their bytes count when all of that is committed."""


def add_step(steps: deque[Step], step: Step) -> None:
    """Behind the others."""
    if len(steps) < STEPS_MAX:
        steps.append(step)
    else:
        steps[-1].end_offset = step.end_offset
        steps[-1].byte_count += step.byte_count


class Parked:
    """One who waits for an end to be written or committed."""

    __slots__ = ("end_offset", "on_settled")

    def __init__(self, end_offset: int, on_settled: Settled) -> None:
        self.end_offset = end_offset
        self.on_settled = on_settled


class _Waiters:
    """In the order of the ends that they wait for, which only grow."""

    __slots__ = ("_parked",)

    def __init__(self) -> None:
        # Of a plain dict the first key is found only past all that have left before it.
        self._parked: OrderedDict[Parked, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._parked)

    def add(self, parked: Parked) -> None:
        self._parked[parked] = None

    def discard(self, parked: Parked) -> None:
        self._parked.pop(parked, None)

    def settle(self, end_offset: int) -> None:
        parked = self._parked
        while parked:
            first = next(iter(parked))
            if first.end_offset > end_offset:
                return
            del parked[first]
            _call(first.on_settled, None)

    def fail(self, error: KafkaError) -> None:
        while self._parked:
            parked, _ = self._parked.popitem(last=False)
            _call(parked.on_settled, error)


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

    def __init__(self, end_moved: Callable[[int, int], None]) -> None:
        self._end_moved = end_moved
        """Called with the end and the size of each append that has been written, in their
        order."""
        self.writing: deque[Step] = deque()
        self.waiting: deque[Step] = deque()
        self._parked_until_written = _Waiters()
        self._parked_until_committed = _Waiters()
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
            add_step(self.waiting, first)
            self._end_moved(first.end_offset, first.byte_count)
            parked.settle(first.end_offset)

    def commit(self, high_watermark: int) -> int:
        """Up to there. Returns the number of bytes that are committed now; `settle` calls back
        those who waited for it, once readers can see it."""
        byte_count = 0
        waiting = self.waiting
        while waiting and waiting[0].end_offset <= high_watermark:
            byte_count += waiting.popleft().byte_count
        return byte_count

    def settle(self, high_watermark: int) -> None:
        self._parked_until_committed.settle(high_watermark)

    def fail(self, error: KafkaError) -> None:
        """Nobody can say what becomes of any of it: the disk has failed, or another leads."""
        self._failure = error
        self.writing.clear()
        self.waiting.clear()
        self._parked_until_written.fail(error)
        self._parked_until_committed.fail(error)

    def when_written(self, on_settled: Settled) -> None:
        """Calls back when all that has a place now is written here, at once where it is."""
        if self.writing:
            self._parked_until_written.add(Parked(self.writing[-1].end_offset, on_settled))
        else:
            on_settled(self._failure)

    async def all_written(self) -> None:
        """Returns when all that has a place now is written here, or the disk has failed."""
        if self.writing:
            written = asyncio.get_running_loop().create_future()

            def end(_: KafkaError | None) -> None:
                if not written.done():  # Whoever waits may have been cancelled.
                    written.set_result(None)

            self.when_written(end)
            await written

    def when_committed(self, on_settled: Settled) -> Parked | None:
        """Calls back when all that has a place now is committed. At once where it is; else returns
        what `give_up` takes."""
        last = self.writing or self.waiting
        if not last:
            on_settled(self._failure)
            return None
        parked = Parked(last[-1].end_offset, on_settled)
        self._parked_until_committed.add(parked)
        return parked

    def give_up(self, parked: Parked | None) -> None:
        """Whoever waits no longer is not called back, and leaves nothing behind: the high watermark
        may stand still for days."""
        if parked is not None:
            self._parked_until_committed.discard(parked)

    @property
    def parked_count(self) -> int:
        """Of those who wait for something to be committed."""
        return len(self._parked_until_committed)


def _call(on_settled: Settled, error: KafkaError | None) -> None:
    """A bug of one who waits is not to strand those behind."""
    try:
        on_settled(error)
    except Exception:
        logger.exception("what was to follow an append failed")
