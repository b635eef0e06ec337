"""What of a log is on the disk: its recovery point, and the fsyncs that move it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ottla.kernel.garbage import weakly
from ottla.storage.file_names import INDEX_SUFFIXES
from ottla.storage.folder import LogFolder
from ottla.storage.segment import ActiveSegment
from ottla.storage.snapshots import Snapshots


class Submit(Protocol):
    """Runs something off the loop, in order."""

    def __call__(
        self, function: Callable[[ActiveSegment], None], segment: ActiveSegment, /
    ) -> asyncio.Future[None]: ...


class Flusher:
    """Owned by one log. What lies below `recovery_point` is on the disk; the checkpoint in the log
    dir follows it, and after a crash recovery begins there."""

    def __init__(
        self, folder: LogFolder, partition_path: str, recovery_point: int, submit: Submit
    ) -> None:
        self.recovery_point = recovery_point
        self.last_flush_ms = folder.clock.now_ms()
        self._folder = folder
        self._partition_path = partition_path
        self._submit = weakly(submit)
        self._is_flush_queued = False
        self._truncation_count = 0

    def flush_soon(self, active: ActiveSegment, end_offset: int) -> None:
        """Begins a flush unless one is under way that has not begun to sync."""
        if not self._is_flush_queued:
            self._flush(active, end_offset)

    def flush(self, active: ActiveSegment, end_offset: int) -> asyncio.Future[None]:
        """Syncs the active segment, which ends at the offset. Closed ones were queued before. It
        goes on where whoever waits for it is cancelled: others may count on it."""
        return asyncio.shield(self._flush(active, end_offset))

    def _flush(self, active: ActiveSegment, end_offset: int) -> asyncio.Future[None]:
        self._folder.check_online()
        self._is_flush_queued = True
        return self._advance_after(end_offset, self._sync_active, active)

    def flush_closed(self, closed: ActiveSegment, end_offset: int) -> None:
        self._advance_after(end_offset, self.sync_closed, closed)

    def truncated(self, end_offset: int) -> None:
        """What lies below the offset of a flush under way may be other records by now."""
        self._truncation_count += 1
        self.recovery_point = min(self.recovery_point, end_offset)

    async def finish(self, active: ActiveSegment, end_offset: int, snapshots: Snapshots) -> None:
        """For a clean stop: also what is otherwise built anew after a crash. Not through the
        queue: many logs are synced at once, and the disk joins the work."""

        def sync() -> None:
            snapshots.write(end_offset, syncs_folder=False)
            self.sync_closed(active)

        try:
            await self._folder.workers.submit(sync)
        except OSError as error:
            raise self._folder.fail(error, f"closing {self._partition_path}") from error
        self.recovery_point = end_offset

    def sync_closed(self, closed: ActiveSegment) -> None:
        """Off the loop. The indexes of a closed segment below the recovery point are believed
        after a crash, so they are synced as well."""
        disk = self._folder.disk
        closed.file.sync()
        for suffix in INDEX_SUFFIXES:
            path = closed.path(suffix)
            if suffix in closed.unsynced_indexes and disk.exists(path):
                disk.open(path).sync()
        closed.unsynced_indexes.clear()
        closed.is_entry_synced = True
        disk.sync_folder(self._partition_path)

    def _sync_active(self, active: ActiveSegment) -> None:
        """Off the loop."""
        self._is_flush_queued = False
        active.file.sync()
        if not active.is_entry_synced:
            self._folder.disk.sync_folder(self._partition_path)
            active.is_entry_synced = True

    def _advance_after(
        self, offset: int, sync: Callable[[ActiveSegment], None], segment: ActiveSegment
    ) -> asyncio.Future[None]:
        truncation_count = self._truncation_count
        future = self._submit(sync, segment)

        def synced(done: asyncio.Future[None]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            if truncation_count == self._truncation_count:
                self.recovery_point = max(self.recovery_point, offset)
                self.last_flush_ms = self._folder.clock.now_ms()

        future.add_done_callback(synced)
        return future
