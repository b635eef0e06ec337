"""One of the broker's `log.dirs`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ottla.kernel.clock import Clock
from ottla.kernel.disk import Disk
from ottla.kernel.workers import Workers
from ottla.storage.errors import StorageFailure
from ottla.storage.file_cache import FileCache
from ottla.storage.run_mark import RunMark

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

SLOW_WRITE_S = 0.05
"""A write that took longer held up every connection of the broker."""


class LogFolder:
    """Owned by the log manager, shared by the logs that live in it, from start to stop.

    It is online or, after the first failure, offline until the broker starts anew: what the
    page cache still holds after a failed fsync nobody knows, so nothing is tried twice.

    Off-loop work on its files (fsync, checkpoints, removals, and appends while it is slow) goes
    through one ordered queue: an fsync covers what was queued before it, and the recovery point
    never gets to disk before the data and the leader epochs that it vouches for."""

    def __init__(
        self,
        path: str,
        *,
        disk: Disk,
        clock: Clock,
        workers: Workers,
        files: FileCache,
        on_failure: Callable[[LogFolder], None],
    ) -> None:
        self.path = path
        self.disk = disk
        self.clock = clock
        self.workers = workers
        self.files = files
        self.failure: StorageFailure | None = None
        self.log_count = 0
        self.is_loaded = False
        """Whether the log manager knows all of its logs. Before that it must not write about them:
        neither checkpoints nor that the stop was clean."""
        self.clean_epoch: int | None = None
        """Of the run before, if its stop was clean."""
        self.last_run_mark: RunMark | None = None
        """Of the run before."""
        self.is_closed = False
        """After a clean stop: what was to be removed later is left for the next start."""
        self._queue = workers.ordered(f"log-dir {path}")
        self._queued: set[asyncio.Future[object]] = set()
        self._put_off: Callable[[], None] | None = None
        self.is_slow = False
        """Whether appends must go through `submit_write`: a direct one would hold up the loop, or
        overtake one that is queued."""
        self._pending_write_count = 0
        self._is_last_write_slow = False
        self._is_broken = False
        """Known to the queue before the loop hears of it."""
        self._on_failure = on_failure

    def wrote(self, duration_s: float) -> None:
        """Told of every append to a file in this folder."""
        is_slow = duration_s > SLOW_WRITE_S
        if is_slow == self._is_last_write_slow:
            return
        if is_slow:
            logger.warning("a write to %s took %.0f ms", self.path, duration_s * 1000)
        self._is_last_write_slow = is_slow
        self._set_slow()

    def _set_slow(self) -> None:
        self.is_slow = self._is_last_write_slow or self._pending_write_count > 0

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Runs it off the loop after everything that was submitted before. Whatever it raises takes
        the folder offline, a `MemoryError` too: a write may be missing from the middle of a log.
        Whoever awaits the future sees a `StorageFailure`, and nothing that was submitted after it
        runs: an fsync after one that failed would succeed, and mean nothing."""
        if self._put_off is not None:
            self.submit_what_was_put_off()

        def run() -> T:
            if self._is_broken:
                raise StorageFailure(f"log dir {self.path} is offline")
            try:
                return function(*args, **kwargs)
            except Exception as error:
                self._is_broken = True
                raise StorageFailure(f"log dir {self.path} is offline: {_reason(error)}") from error

        future = self._queue.submit(run)
        self._queued.add(future)  # type: ignore[arg-type]
        future.add_done_callback(self._done)
        return future

    def put_off(self, function: Callable[[], None]) -> None:
        """To `submit_what_was_put_off`, and before anything that is submitted until then. While the
        disk syncs, new files have to wait: for the syncs of a thousand logs that are made in one go
        it is better to begin when all are there."""
        assert self._put_off in (None, function), "one thing at a time is put off"
        self._put_off = function

    def submit_what_was_put_off(self) -> None:
        function, self._put_off = self._put_off, None
        if function is not None:
            self.submit(function)

    def submit_write(self, write: Callable[[], float]) -> asyncio.Future[float]:
        """As `submit`, for an append: `write` returns how long it took."""
        self._pending_write_count += 1
        self._set_slow()
        future = self.submit(write)
        future.add_done_callback(self._write_done)
        return future

    async def drain(self) -> None:
        """Waits for everything submitted so far, failed or not. Not for what comes meanwhile: a
        busy log dir always has something to do."""
        self.submit_what_was_put_off()
        if self._queued:
            await asyncio.wait(set(self._queued))

    def fail(self, error: Exception, doing: str) -> StorageFailure:
        """Takes the folder offline and returns what to raise."""
        self._is_broken = True
        if self.failure is None:
            message = f"log dir {self.path} is offline: {doing}: {_reason(error)}"
            self.failure = StorageFailure(message)
            # An error of the disk says all there is to say; of a bug the place is wanted.
            logger.error("%s", message, exc_info=None if isinstance(error, OSError) else error)
            self._on_failure(self)
        return self.failure

    def check_online(self) -> None:
        if self.failure is not None:
            raise StorageFailure(str(self.failure))

    def _done(self, future: asyncio.Future[T]) -> None:
        self._queued.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        cause = None if error is None else error.__cause__
        if isinstance(cause, Exception):
            self.fail(cause, "background work failed")

    def _write_done(self, future: asyncio.Future[float]) -> None:
        self._pending_write_count -= 1
        self._set_slow()
        if not future.cancelled() and future.exception() is None:
            self.wrote(future.result())


def _reason(error: Exception) -> str:
    return str(error) or repr(error)  # That memory ran out has no words of its own.
