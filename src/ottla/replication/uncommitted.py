"""What of a partition has its place in the log and is not committed, and who waits for it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.kernel.errors import KafkaError

logger = logging.getLogger(__name__)


class Step:
    """An append that is being written or synced."""

    __slots__ = ("byte_count", "end_offset", "is_done")

    def __init__(self, end_offset: int, byte_count: int) -> None:
        self.end_offset = end_offset
        self.byte_count = byte_count
        self.is_done = False


class _Parked(NamedTuple):
    end_offset: int
    on_committed: Callable[[KafkaError | None], None]


class Uncommitted:
    """Owned by one partition. Empty in the common case, where an append is written and committed
    by one call. Steps end in any order, and are committed in the order of their places."""

    __slots__ = ("_commit", "_failure", "_parked", "steps")

    def __init__(self, commit: Callable[[int, int], None]) -> None:
        self._commit = commit
        """Called with the end offset and size of each append whose turn has come."""
        self.steps: deque[Step] = deque()
        self._parked: deque[_Parked] = deque()
        self._failure: KafkaError | None = None

    @property
    def is_empty(self) -> bool:
        """Whether all that has a place is committed. After a failure that is never said again."""
        return not self.steps and self._failure is None

    def begin(self, end_offset: int, byte_count: int) -> Step:
        step = Step(end_offset, byte_count)
        self.steps.append(step)
        return step

    def finish(self, step: Step) -> None:
        """It is as durable as it is to be."""
        step.is_done = True
        steps, parked = self.steps, self._parked
        while steps and steps[0].is_done:
            first = steps.popleft()
            self._commit(first.end_offset, first.byte_count)
            while parked and parked[0].end_offset <= first.end_offset:
                _call(parked.popleft().on_committed, None)

    def fail(self, error: KafkaError) -> None:
        """Nobody can say what became of any of it: the disk has failed."""
        self._failure = error
        self.steps.clear()
        parked, self._parked = self._parked, deque()
        for each in parked:
            _call(each.on_committed, error)

    def when_committed(self, on_committed: Callable[[KafkaError | None], None]) -> None:
        """Calls back when all that has a place now is committed, at once where it is; or with the
        error that keeps it from that."""
        if self.steps:
            self._parked.append(_Parked(self.steps[-1].end_offset, on_committed))
        else:
            on_committed(self._failure)


def _call(on_committed: Callable[[KafkaError | None], None], error: KafkaError | None) -> None:
    """A bug of one who waits is not to strand those behind."""
    try:
        on_committed(error)
    except Exception:
        logger.exception("what was to follow a commit failed")
