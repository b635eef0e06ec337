"""The segments of one log, in a row."""

from __future__ import annotations

import random
import struct
from bisect import bisect_right
from collections import deque

from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.records.batch import LENGTH_AT, LOG_OVERHEAD_BYTES
from ottla.storage.batch_scan import Cold
from ottla.storage.file_names import LOG_SUFFIX
from ottla.storage.folder import LogFolder
from ottla.storage.pending_write import PendingWrite
from ottla.storage.recovery import open_active
from ottla.storage.segment import ActiveSegment, Segment
from ottla.storage.transaction_index import AbortedTransaction

_batch_length = struct.Struct(">i")


class Segments:
    """Owned by one log. Closed ones, oldest first, and the active one, which is always there.
    Every method may raise `OSError`."""

    def __init__(
        self,
        folder: LogFolder,
        partition_path: str,
        closed: list[Segment],
        active: ActiveSegment,
        rng: random.Random,
    ) -> None:
        self._folder = folder
        self._partition_path = partition_path
        self._rng = rng
        self.closed = closed
        self.active = active
        self._base_offsets = [segment.base_offset for segment in closed]
        self._aborted = _with_aborted(closed)
        self.unwritten: deque[PendingWrite] = deque()
        """What has its place and is not in its file, in order. The active segment may be rolled
        meanwhile, so it may be that of a closed one."""

    def all(self) -> list[Segment]:
        return [*self.closed, self.active]

    @property
    def first_base_offset(self) -> int:
        return self._base_offsets[0] if self._base_offsets else self.active.base_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.closed) + self.active.size_bytes

    def read(
        self, offset: int, max_bytes: int, max_offset: int, end_offset: int, at_least_one: bool
    ) -> FileSlice | Cold | None:
        """See `Log.read`. `end_offset` is where the last segment ends."""
        closed = self.closed
        number = self._number_of(offset)
        while True:
            segment = closed[number] if number < len(closed) else self.active
            if segment.base_offset >= max_offset:
                return None
            position = segment.locate(offset)
            if position is not None:
                break
            if segment is self.active:
                return None
            number += 1  # A compaction has left nothing between the offset and the next segment.
        if isinstance(position, Cold):
            return position
        end = self.written_bytes(segment)
        if self.unwritten and max_offset >= self.unwritten[0].appended.first_offset:
            pass  # What is written ends there.
        elif max_offset < (self._base_offset_after(number) if number < len(closed) else end_offset):
            limit = segment.locate(max_offset)
            if isinstance(limit, Cold):
                return limit
            if limit is not None:
                end = limit
        return _slice(segment, position, end, max_bytes, at_least_one)

    def aborted_transactions(
        self, offset: int, records: FileSlice, max_offset: int, end_offset: int
    ) -> list[AbortedTransaction] | Cold:
        """See `Log.aborted_transactions`. `end_offset` is where the last segment ends."""
        closed = self.closed
        number = self._number_of(offset)
        base_offset = closed[number].base_offset if number < len(closed) else offset
        # A marker may lie in a later segment than the records.
        candidates: list[Segment] = [s for s in self._aborted if s.base_offset >= base_offset]
        if self.active.transaction_index.entries:
            candidates.append(self.active)
        if not candidates:
            return []
        max_offset = min(max_offset, self._end_offset_of(records, number, end_offset))
        found: list[AbortedTransaction] = []
        for segment in candidates:
            collected = segment.collect_aborted(offset, max_offset)
            if isinstance(collected, Cold):
                return collected
            found += collected.aborted
            if collected.is_complete:
                break
        return found

    def _end_offset_of(self, records: FileSlice, number: int, end_offset: int) -> int:
        """An offset not below the end of what was read, and not far above it. It was read from
        the segment of that number or, where compaction has left nothing in that, a later one."""
        closed = self.closed
        while number < len(closed) and closed[number].path(LOG_SUFFIX) != records.file.path:
            number += 1
        segment = closed[number] if number < len(closed) else self.active
        end = segment.end_offset_before(records.offset + records.length)
        if end is not None:
            return end
        return self._base_offset_after(number) if number < len(closed) else end_offset

    def _number_of(self, offset: int) -> int:
        """Of the segment that holds the offset."""
        if offset >= self.active.base_offset:
            return len(self.closed)
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def _base_offset_after(self, number: int) -> int:
        if number + 1 < len(self._base_offsets):
            return self._base_offsets[number + 1]
        return self.active.base_offset

    def roll(self, base_offset: int, config: TopicConfig) -> ActiveSegment:
        """Closes the active one, and begins another. Returns the one that was closed."""
        old = self.active
        assert old.size_bytes, "an empty segment is not rolled"
        old.finish_indexes()
        self.active = self._create(base_offset, config)
        self.closed.append(old.sealed())
        self._base_offsets.append(old.base_offset)
        self._aborted = _with_aborted(self.closed)
        return old

    def replace_empty(self, base_offset: int, config: TopicConfig) -> list[str]:
        """An empty active segment begins too far below what comes (a follower of a compacted
        log): another takes its place. Returns the files that are to be removed."""
        assert self.active.size_bytes == 0, "only an empty segment is replaced"
        empty = self.active
        empty.rename_deleted()
        self.active = self._create(base_offset, config)
        return empty.deleted_paths()

    def drop_oldest(self, count: int) -> list[Segment]:
        gone, self.closed = self.closed[:count], self.closed[count:]
        del self._base_offsets[:count]
        self._aborted = _with_aborted(self.closed)
        return gone

    def drop_all(self, base_offset: int, config: TopicConfig) -> list[str]:
        """Begins anew with one empty segment. Returns the files that are to be removed."""
        gone = self.all()
        for segment in gone:
            segment.forget_files()
            segment.rename_deleted()
        self.closed = []
        self._base_offsets = []
        self._aborted = []
        self.active = self._create(base_offset, config)
        return [path for segment in gone for path in segment.deleted_paths()]

    def truncate(self, offset: int, config: TopicConfig) -> list[Segment]:
        """Cuts everything at or above the offset. Returns the segments that are gone whole."""
        gone: list[Segment] = []
        while self.active.base_offset > offset:
            gone.append(self.active)
            self._base_offsets.pop()
            self.active = open_active(self.closed.pop(), config, self._folder.clock.now_ms())
        self.active.truncate(offset)
        self.active.is_entry_synced = False
        self._aborted = _with_aborted(self.closed)
        return gone

    def written_bytes(self, segment: Segment) -> int:
        """What of a segment is in its file: not what has its place there and is to be written."""
        if not self.unwritten:
            return segment.size_bytes
        first = self.unwritten[0]
        if segment.base_offset < first.segment_base_offset:
            return segment.size_bytes
        return first.position if segment.base_offset == first.segment_base_offset else 0

    def _create(self, base_offset: int, config: TopicConfig) -> ActiveSegment:
        active = ActiveSegment.create(
            self._folder, self._partition_path, base_offset, self._folder.clock.now_ms()
        )
        active.roll_jitter_ms = draw_roll_jitter_ms(config, self._rng)
        return active


def _with_aborted(closed: list[Segment]) -> list[Segment]:
    return [segment for segment in closed if segment.aborted_bytes]


def draw_roll_jitter_ms(config: TopicConfig, rng: random.Random) -> int:
    """How much earlier than `segment.ms` a segment is rolled, so that not all are at once."""
    limit_ms = min(config.segment_jitter_ms, config.segment_ms)
    return rng.randrange(limit_ms) if limit_ms > 0 else 0


def _slice(
    segment: Segment, position: int, end: int, max_bytes: int, at_least_one: bool
) -> FileSlice | Cold | None:
    file = segment.open()
    length = end - position
    if length > max_bytes:
        if max_bytes <= 0 and not at_least_one:
            return None
        if not file.is_cached(position, LOG_OVERHEAD_BYTES):
            return Cold(file, position, LOG_OVERHEAD_BYTES)
        (batch_length,) = _batch_length.unpack(file.read_at(position + LENGTH_AT, 4))
        batch_bytes = batch_length + LOG_OVERHEAD_BYTES
        if batch_bytes > max_bytes and not at_least_one:
            return None  # Nobody can use a piece of a batch.
        length = min(length, max(max_bytes, batch_bytes))
    return FileSlice(file, position, length) if length > 0 else None
