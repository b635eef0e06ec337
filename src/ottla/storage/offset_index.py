"""The sparse offset index of a segment: where in the log a batch begins.

An entry is 8 bytes: the last offset of a batch, relative to the segment's base offset, and the
position of that batch. Offsets and positions grow from entry to entry.
"""

from __future__ import annotations

import struct

from ottla.kernel.disk import File
from ottla.storage.index_search import count_below, read_page

ENTRY_BYTES = 8
_ENTRY = struct.Struct(">II")
_unpack = _ENTRY.unpack_from
_pack = _ENTRY.pack
_OFFSET, _POSITION = range(2)


class OffsetIndex:
    """The index of an active segment. Entries live in memory and go to the file in passing; a
    crash loses those that did not, and recovery builds them again from the log."""

    __slots__ = ("entries", "written_bytes")

    def __init__(self, entries: bytes = b"", *, written_bytes: int = 0) -> None:
        self.entries = bytearray(entries)
        self.written_bytes = written_bytes

    def __len__(self) -> int:
        return len(self.entries) // ENTRY_BYTES

    def append(self, relative_offset: int, position: int) -> None:
        self.entries += _pack(relative_offset, position)

    def position_before(self, relative_offset: int) -> int:
        """The position of the last entry that is not above the offset; 0 when there is none."""
        return _position_in(self.entries, relative_offset)

    def offset_from(self, position: int) -> int | None:
        """The relative offset of the first entry at or after the position."""
        return _offset_in(self.entries, position)

    def last_entry(self) -> tuple[int, int]:
        """Relative offset and position, (0, 0) when empty."""
        if not self.entries:
            return 0, 0
        return _unpack(self.entries, len(self.entries) - ENTRY_BYTES)

    def truncate(self, relative_offset: int) -> None:
        """Drops every entry at or above the offset."""
        count = count_below(self.entries, _ENTRY, _OFFSET, relative_offset)
        del self.entries[count * ENTRY_BYTES :]
        self.written_bytes = min(self.written_bytes, len(self.entries))


def find_position(file: File, size_bytes: int, relative_offset: int) -> int:
    """`position_before` for the index of a closed segment."""
    page = read_page(file, size_bytes, _ENTRY, _OFFSET, relative_offset + 1)
    return _position_in(page, relative_offset)


def find_offset_from(file: File, size_bytes: int, position: int) -> int | None:
    """`offset_from` for the index of a closed segment."""
    return _offset_in(read_page(file, size_bytes, _ENTRY, _POSITION, position), position)


def is_sound(entries: bytes, log_size_bytes: int) -> bool:
    """Whether these can be the entries of a log of that size: whole, growing, inside. Checked
    when a segment is opened for appending; entry by entry would cost a second a gigabyte of log,
    so it looks at the ends and at some between."""
    if len(entries) % ENTRY_BYTES:
        return False
    count = len(entries) // ENTRY_BYTES
    previous_offset, previous_position = -1, -1
    step = max(1, count // 64)
    for number in [*range(0, count, step), count - 1] if count else []:
        relative_offset, position = _unpack(entries, number * ENTRY_BYTES)
        if number == count - 1 and (relative_offset, position) == (
            previous_offset,
            previous_position,
        ):
            continue
        if relative_offset <= previous_offset or position <= previous_position:
            return False
        previous_offset, previous_position = relative_offset, position
    return previous_position < log_size_bytes


def _position_in(entries: bytes | bytearray, relative_offset: int) -> int:
    count = count_below(entries, _ENTRY, _OFFSET, relative_offset + 1)
    if count == 0:
        return 0
    position: int = _unpack(entries, (count - 1) * ENTRY_BYTES)[_POSITION]
    return position


def _offset_in(entries: bytes | bytearray, position: int) -> int | None:
    count = count_below(entries, _ENTRY, _POSITION, position)
    if count == len(entries) // ENTRY_BYTES:
        return None
    relative_offset: int = _unpack(entries, count * ENTRY_BYTES)[_OFFSET]
    return relative_offset
