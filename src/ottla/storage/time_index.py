"""The sparse time index of a segment: from which offset on records may be newer than a time.

An entry is 12 bytes: the largest timestamp so far, and the last offset of the batch that holds
it, relative to the segment's base offset. Timestamps grow from entry to entry, so the last entry
of a closed segment is its largest timestamp.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.kernel.disk import File
from ottla.storage.index_search import count_below, read_page

ENTRY_BYTES = 12
_ENTRY = struct.Struct(">qI")
_unpack = _ENTRY.unpack_from
_pack = _ENTRY.pack
_TIMESTAMP = 0


class TimeEntry(NamedTuple):
    timestamp: int
    relative_offset: int


NO_ENTRY = TimeEntry(-1, 0)


class TimeIndex:
    """The index of an active segment, in memory; see `OffsetIndex`."""

    __slots__ = ("entries", "last_timestamp", "written_bytes")

    def __init__(self, entries: bytes = b"", *, written_bytes: int = 0) -> None:
        self.entries = bytearray(entries)
        self.written_bytes = written_bytes
        self.last_timestamp = self.last_entry().timestamp

    def __len__(self) -> int:
        return len(self.entries) // ENTRY_BYTES

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Only a larger timestamp makes an entry."""
        if timestamp > self.last_timestamp:
            self.entries += _pack(timestamp, relative_offset)
            self.last_timestamp = timestamp

    def last_entry(self) -> TimeEntry:
        if not self.entries:
            return NO_ENTRY
        return TimeEntry(*_unpack(self.entries, len(self.entries) - ENTRY_BYTES))

    def entry_before(self, timestamp: int) -> TimeEntry:
        """The last entry that is not above the timestamp."""
        return _entry_in(self.entries, timestamp)

    def truncate(self, relative_offset: int) -> None:
        """Drops every entry at or above the offset."""
        count = len(self)
        while count and _unpack(self.entries, (count - 1) * ENTRY_BYTES)[1] >= relative_offset:
            count -= 1
        del self.entries[count * ENTRY_BYTES :]
        self.written_bytes = min(self.written_bytes, len(self.entries))
        self.last_timestamp = self.last_entry().timestamp


def find_entry(file: File, size_bytes: int, timestamp: int) -> TimeEntry:
    """`entry_before` for the index of a closed segment."""
    return _entry_in(read_page(file, size_bytes, _ENTRY, _TIMESTAMP, timestamp + 1), timestamp)


def read_last_entry(file: File) -> TimeEntry:
    count = file.size() // ENTRY_BYTES
    if count == 0:
        return NO_ENTRY
    return TimeEntry(*_unpack(file.read_at((count - 1) * ENTRY_BYTES, ENTRY_BYTES)))


def is_sound(entries: bytes) -> bool:
    if len(entries) % ENTRY_BYTES:
        return False
    if not entries:
        return True
    first = TimeEntry(*_unpack(entries, 0))
    last = TimeEntry(*_unpack(entries, len(entries) - ENTRY_BYTES))
    return first.timestamp >= 0 and last >= first


def _entry_in(entries: bytes | bytearray, timestamp: int) -> TimeEntry:
    count = count_below(entries, _ENTRY, _TIMESTAMP, timestamp + 1)
    if count == 0:
        return NO_ENTRY
    return TimeEntry(*_unpack(entries, (count - 1) * ENTRY_BYTES))
