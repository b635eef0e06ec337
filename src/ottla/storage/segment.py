"""One segment of a log: the file of batches, and its two indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.kernel.disk import File
from ottla.records.batch import LOG_OVERHEAD_BYTES, BatchHeader
from ottla.storage import offset_index, time_index, transaction_index
from ottla.storage.batch_scan import Cold, ScannedBatch, find_batch, scan_batches
from ottla.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.folder import LogFolder
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.producer_state import EndedTransaction
from ottla.storage.time_index import NO_ENTRY, TimeEntry, TimeIndex
from ottla.storage.transaction_index import AbortedTransaction, Collected, TransactionIndex

RELATIVE_OFFSET_MAX = 2**31 - 1

# Index entries go to their file this many bytes at a time: of the offset index, a page.
_INDEX_WRITE_BYTES = 4096
# How many batches at the end of the log are found without looking into the index: twice this.
_RECENT_BATCH_COUNT = 32


class Segment:
    """A closed segment. Owned by its log from when it is rolled or found until it is deleted.
    Nothing of it is open until it is read, and then only as long as the file cache likes."""

    __slots__ = (
        "_largest",
        "aborted_bytes",
        "base_offset",
        "folder",
        "partition_path",
        "size_bytes",
    )

    def __init__(
        self,
        folder: LogFolder,
        partition_path: str,
        base_offset: int,
        size_bytes: int,
        *,
        largest: TimeEntry | None = None,
        aborted_bytes: int = 0,
    ) -> None:
        self.folder = folder
        self.partition_path = partition_path
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self._largest = largest
        self.aborted_bytes = aborted_bytes
        """The size of its transaction index."""

    def path(self, suffix: str) -> str:
        return f"{self.partition_path}/{file_name(self.base_offset, suffix)}"

    def open(self) -> File:
        return self.folder.files.open(self.path(LOG_SUFFIX))

    def locate(self, offset: int, *, may_wait: bool = False) -> int | Cold | None:
        """The position of the batch that holds the offset, or of the next one where a compaction
        has left a gap. None when everything in the segment is below."""
        index = self.folder.files.open(self.path(OFFSET_INDEX_SUFFIX))
        index_bytes = index.size()
        if index_bytes and not may_wait and not index.is_cached(0, index_bytes):
            return Cold(index, 0, index_bytes)
        position = offset_index.find_position(
            index, index_bytes, min(offset - self.base_offset, RELATIVE_OFFSET_MAX)
        )
        return find_batch(self.open(), position, self.size_bytes, offset, may_wait=may_wait)

    def largest(self) -> TimeEntry:
        """The largest timestamp, and the last offset (relative) of the batch that holds it. Read
        once; may be called off the loop."""
        if self._largest is None:
            index = self.folder.disk.open(self.path(TIME_INDEX_SUFFIX))
            self._largest = time_index.read_last_entry(index)
        return self._largest

    def largest_timestamp_ms(self) -> int:
        """For retention: where no record has a timestamp, the time of the last write."""
        timestamp = self.largest().timestamp
        if timestamp >= 0:
            return timestamp
        return self.folder.disk.modified_ms(self.path(LOG_SUFFIX))

    def position_before_timestamp(self, timestamp: int) -> int:
        """Where to begin to look for the first record that is not older. Waits for the disk, and
        may be called off the loop."""
        disk = self.folder.disk
        times = disk.open(self.path(TIME_INDEX_SUFFIX))
        entry = time_index.find_entry(times, times.size(), timestamp)
        offsets = disk.open(self.path(OFFSET_INDEX_SUFFIX))
        return offset_index.find_position(offsets, offsets.size(), entry.relative_offset)

    def position_before(self, offset: int) -> int:
        """Of an indexed batch that is not above the offset. Waits for the disk, and may be called
        off the loop."""
        offsets = self.folder.disk.open(self.path(OFFSET_INDEX_SUFFIX))
        relative = min(max(0, offset - self.base_offset), RELATIVE_OFFSET_MAX)
        return offset_index.find_position(offsets, offsets.size(), relative)

    def scan(
        self, position: int = 0, end: int | None = None, *, headers_only: bool = True
    ) -> Iterator[ScannedBatch]:
        """Its batches, in order. Waits for the disk, and may be called off the loop."""
        file = self.folder.disk.open(self.path(LOG_SUFFIX))
        end = self.size_bytes if end is None else end
        return scan_batches(file, position, end, headers_only=headers_only)

    def collect_aborted(self, offset: int, end_offset: int) -> Collected | Cold:
        """The aborted transactions that end in this segment and overlap the range."""
        index = self.folder.files.open(self.path(TXN_INDEX_SUFFIX))
        return transaction_index.collect_in_file(index, self.aborted_bytes, offset, end_offset)

    def end_offset_before(self, position: int) -> int | None:
        """An offset that is above everything that lies before the position; None where the index
        knows none."""
        index = self.folder.files.open(self.path(OFFSET_INDEX_SUFFIX))
        relative = offset_index.find_offset_from(index, index.size(), position)
        return None if relative is None else self.base_offset + relative

    def forget_files(self) -> None:
        """Before its paths come to mean something else."""
        for suffix in SEGMENT_SUFFIXES:
            self.folder.files.forget(self.path(suffix))

    def rename_deleted(self) -> None:
        """So that a crash from now on does not bring it back. What is open stays readable. May
        be called off the loop; `forget_files` comes first."""
        disk = self.folder.disk
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if disk.exists(path):
                disk.rename(path, path + DELETED_SUFFIX)

    def deleted_paths(self) -> list[str]:
        return [self.path(suffix) + DELETED_SUFFIX for suffix in SEGMENT_SUFFIXES]


class ActiveSegment(Segment):
    """The last segment of a log, the one that is appended to. Its file is open, its indexes are
    in memory. A crash leaves the log file torn and the indexes short; recovery mends both."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_older",
        "_recent",
        "created_ms",
        "file",
        "first_timestamp",
        "is_entry_synced",
        "largest_offset",
        "largest_timestamp",
        "offset_index",
        "roll_jitter_ms",
        "time_index",
        "transaction_index",
        "unsynced_indexes",
    )

    def __init__(
        self,
        folder: LogFolder,
        partition_path: str,
        base_offset: int,
        file: File,
        *,
        size_bytes: int = 0,
        created_ms: int,
    ) -> None:
        super().__init__(folder, partition_path, base_offset, size_bytes)
        self.file = file
        self.offset_index = OffsetIndex()
        self.time_index = TimeIndex()
        self.transaction_index = TransactionIndex()
        self.largest_timestamp = -1
        self.largest_offset = base_offset
        self.created_ms = created_ms
        self.roll_jitter_ms = 0
        self.first_timestamp: int | None = None
        self.is_entry_synced = False
        self.unsynced_indexes: set[str] = set()
        """Their suffixes. Those that nothing was written to are as empty on the disk."""
        self._bytes_since_index_entry = 0
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}

    @classmethod
    def create(
        cls,
        folder: LogFolder,
        partition_path: str,
        base_offset: int,
        created_ms: int,
        *,
        is_folder_new: bool = False,
    ) -> ActiveSegment:
        """Makes its files. Kafka takes a log file without an offset index for a damaged one, so
        the empty indexes are made first. In a folder that is new there are none of that name."""
        disk = folder.disk
        prefix = f"{partition_path}/"
        emptied = set()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            file = disk.open(prefix + file_name(base_offset, suffix), create=True)
            if not is_folder_new and file.size():
                file.truncate(0)
                emptied.add(suffix)
        if not is_folder_new:
            disk.remove(prefix + file_name(base_offset, TXN_INDEX_SUFFIX))
        created = cls(folder, partition_path, base_offset, file, created_ms=created_ms)
        created.unsynced_indexes |= emptied
        return created

    def open(self) -> File:
        return self.file

    def note_append(
        self,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        size_bytes: int,
        index_interval_bytes: int,
    ) -> bool:
        """Takes in a batch that was written at the end. True when the indexes have grown."""
        position = self.size_bytes
        if position == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self.largest_offset = last_offset
        is_indexed = False
        if self._bytes_since_index_entry > index_interval_bytes:
            self.offset_index.append(last_offset - self.base_offset, position)
            self.time_index.maybe_append(
                self.largest_timestamp, self.largest_offset - self.base_offset
            )
            self._bytes_since_index_entry = 0
            is_indexed = True
        self._bytes_since_index_entry += size_bytes
        if len(self._recent) >= _RECENT_BATCH_COUNT:
            self._older = self._recent
            self._recent = {}
        self._recent[base_offset] = position
        self.size_bytes = position + size_bytes
        return is_indexed

    def note_run(self, headers: Sequence[BatchHeader], index_interval_bytes: int) -> None:
        """`note_append` of each, for a follower that catches up: calls would take longer than all
        the rest."""
        position, since_entry = self.size_bytes, self._bytes_since_index_entry
        relative_to, offset_index = self.base_offset, self.offset_index
        if position == 0:
            self.first_timestamp = headers[0].max_timestamp
        for base_offset, batch_length, _, _, _, _, delta, _, max_timestamp, *_ in headers:
            if max_timestamp > self.largest_timestamp:
                self.largest_timestamp = max_timestamp
                self.largest_offset = base_offset + delta
            if since_entry > index_interval_bytes:
                offset_index.append(base_offset + delta - relative_to, position)
                self.time_index.maybe_append(
                    self.largest_timestamp, self.largest_offset - relative_to
                )
                since_entry = 0
            size_bytes = batch_length + LOG_OVERHEAD_BYTES
            since_entry += size_bytes
            if len(self._recent) >= _RECENT_BATCH_COUNT:
                self._older = self._recent
                self._recent = {}
            self._recent[base_offset] = position
            position += size_bytes
        self.size_bytes, self._bytes_since_index_entry = position, since_entry

    @property
    def is_synced(self) -> bool:
        """Whether its indexes and its entries in the folder are on the disk."""
        return self.is_entry_synced and not self.unsynced_indexes

    @property
    def is_index_due(self) -> bool:
        """Whether enough entries have come together to be written."""
        index = self.offset_index
        return len(index.entries) - index.written_bytes >= _INDEX_WRITE_BYTES

    def locate(self, offset: int, *, may_wait: bool = False) -> int | Cold | None:
        position = self._recent.get(offset)
        if position is None:
            position = self._older.get(offset)
        if position is not None:
            return position
        start = self.position_before(offset)
        return find_batch(self.file, start, self.size_bytes, offset, may_wait=may_wait)

    def position_before(self, offset: int) -> int:
        relative = min(max(0, offset - self.base_offset), RELATIVE_OFFSET_MAX)
        return self.offset_index.position_before(relative)

    def is_index_full(self, index_bytes_max: int) -> bool:
        """One entry of the time index is kept for when the segment is rolled."""
        return (
            len(self.offset_index) >= index_bytes_max // offset_index.ENTRY_BYTES
            or len(self.time_index) >= index_bytes_max // time_index.ENTRY_BYTES - 1
        )

    def largest(self) -> TimeEntry:
        if self.largest_timestamp < 0:
            return NO_ENTRY
        return TimeEntry(self.largest_timestamp, self.largest_offset - self.base_offset)

    def position_before_timestamp(self, timestamp: int) -> int:
        entry = self.time_index.entry_before(timestamp)
        return self.offset_index.position_before(entry.relative_offset)

    def note_aborted(self, ended: EndedTransaction) -> None:
        self.transaction_index.append(
            AbortedTransaction(
                ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
            )
        )

    def collect_aborted(self, offset: int, end_offset: int) -> Collected | Cold:
        return self.transaction_index.collect(offset, end_offset)

    def end_offset_before(self, position: int) -> int | None:
        relative = self.offset_index.offset_from(position)
        return None if relative is None else self.base_offset + relative

    def write_transaction_index(self) -> None:
        """Its file is there once it has an entry."""
        index = self.transaction_index
        if index.written_bytes < len(index.entries):
            file = self.folder.disk.open(self.path(TXN_INDEX_SUFFIX), create=True)
            file.write_at(index.written_bytes, (bytes(index.entries[index.written_bytes :]),))
            index.written_bytes = len(index.entries)
            self.unsynced_indexes.add(TXN_INDEX_SUFFIX)

    def write_indexes(self) -> None:
        for index, suffix in (
            (self.offset_index, OFFSET_INDEX_SUFFIX),
            (self.time_index, TIME_INDEX_SUFFIX),
        ):
            if index.written_bytes < len(index.entries):
                file = self.folder.disk.open(self.path(suffix))
                file.write_at(index.written_bytes, (bytes(index.entries[index.written_bytes :]),))
                index.written_bytes = len(index.entries)
                self.unsynced_indexes.add(suffix)
        self.write_transaction_index()

    def finish_indexes(self) -> None:
        """Before the segment is closed."""
        self.finish_time_index()
        self.write_indexes()

    def finish_time_index(self) -> None:
        """The largest timestamp becomes the last entry."""
        if self.largest_timestamp >= 0:
            self.time_index.maybe_append(
                self.largest_timestamp, self.largest_offset - self.base_offset
            )

    def sealed(self) -> Segment:
        """The same segment, closed."""
        self.folder.files.keep(self.file)
        return Segment(
            self.folder,
            self.partition_path,
            self.base_offset,
            self.size_bytes,
            largest=self.largest(),
            aborted_bytes=len(self.transaction_index.entries),
        )

    def truncate(self, offset: int) -> None:
        """Cuts off the batch that holds the offset and all after it. Waits for the disk."""
        position = self.locate(offset, may_wait=True)
        self._recent = {}
        self._older = {}
        self.offset_index.truncate(offset - self.base_offset)
        self.time_index.truncate(offset - self.base_offset)
        for index, suffix in (
            (self.offset_index, OFFSET_INDEX_SUFFIX),
            (self.time_index, TIME_INDEX_SUFFIX),
        ):
            self.folder.disk.open(self.path(suffix)).truncate(index.written_bytes)
        has_aborted_file = self.transaction_index.written_bytes > 0
        self.transaction_index.truncate(offset)
        if has_aborted_file:
            aborted = self.folder.disk.open(self.path(TXN_INDEX_SUFFIX))
            aborted.truncate(self.transaction_index.written_bytes)
        self.unsynced_indexes.update(INDEX_SUFFIXES)
        if isinstance(position, int):
            self.file.truncate(position)
            self.size_bytes = position
        self._bytes_since_index_entry = 0
        self.reload_timestamps()

    def reload_timestamps(self) -> None:
        """Largest and first timestamp from the last index entry on. Waits for the disk."""
        last = self.time_index.last_entry()
        self.largest_timestamp = last.timestamp
        self.largest_offset = self.base_offset + last.relative_offset
        start = self.offset_index.position_before(last.relative_offset)
        for batch in self.scan(start):
            if batch.header.max_timestamp > self.largest_timestamp:
                self.largest_timestamp = batch.header.max_timestamp
                self.largest_offset = batch.header.last_offset
        self.first_timestamp = None
        if self.size_bytes:
            first = next(self.scan(0), None)
            self.first_timestamp = first.header.max_timestamp if first else None
