"""One append to a log: its write, and its answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.clock import Clock
from ottla.kernel.disk import File
from ottla.storage.producer_entry import BatchMetadata

if TYPE_CHECKING:
    from ottla.storage.segment import ActiveSegment

logger = logging.getLogger(__name__)


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 where the topic keeps the time that the producer gave."""
    is_duplicate: bool


def repeated(duplicate: BatchMetadata) -> Appended:
    """The first answer again. Kafka gives the time of the batch as append time, whatever the
    topic's timestamp type."""
    return Appended(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True)


class PendingWrite:
    """An append that has its place in the log but is not in the file yet. `write` runs off the
    loop, in the order of `Log.prepare`, and touches nothing but the file; then `Log.commit` lets
    it be seen. If it fails, the log dir is offline and the batch was never there."""

    __slots__ = ("_buffer", "_clock", "appended", "file", "position", "segment_base_offset")

    def __init__(
        self, clock: Clock, segment: ActiveSegment, buffer: memoryview, appended: Appended
    ) -> None:
        self._clock = clock
        self.file = segment.file
        self.position = segment.size_bytes
        self.segment_base_offset = segment.base_offset
        self._buffer = buffer
        self.appended = appended

    def write(self) -> float:
        """Returns the seconds it took. For `LogFolder.submit_write`."""
        clock = self._clock
        started_s = clock.monotonic_s()
        try:
            self.file.write_at(self.position, (self._buffer,))
        except Exception:
            cut_back(self.file, self.position)
            raise
        return clock.monotonic_s() - started_s


def cut_back(file: File, size_bytes: int) -> None:
    """After a write that failed, so that no part of it is found later. The disk may refuse this
    too; then recovery cuts it, or finds the batch whole, which a retry would have made it."""
    try:
        file.truncate(size_bytes)
    except Exception as error:  # Whoever calls this has an error to tell.
        logger.error("cannot cut %s back to %d bytes: %s", file.path, size_bytes, error)
