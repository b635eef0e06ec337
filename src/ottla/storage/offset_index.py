"""The sparse offset index of a segment: where in the log a batch begins.

An entry is 8 bytes: the last offset of a batch, relative to the segment's base offset, and the
position of that batch. Offsets and positions grow from entry to entry.
"""

from __future__ import annotations

import struct

from ottla.kernel.disk import File

ENTRY_BYTES = 8
_ENTRY = struct.Struct(">II")
_unpack = _ENTRY.unpack_from
_pack = _ENTRY.pack

# A lookup in a file reads single entries until what is left is one page, then that page.
_PAGE_ENTRIES = 512


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
        return _position_in(self.entries, 0, len(self), relative_offset)

    def offset_from(self, position: int) -> int | None:
        """The relative offset of the first entry at or after the position."""
        return _offset_in(self.entries, len(self), position)

    def last_entry(self) -> tuple[int, int]:
        """Relative offset and position, (0, 0) when empty."""
        if not self.entries:
            return 0, 0
        return _unpack(self.entries, len(self.entries) - ENTRY_BYTES)

    def truncate(self, relative_offset: int) -> None:
        """Drops every entry at or above the offset."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if _unpack(self.entries, middle * ENTRY_BYTES)[0] < relative_offset:
                low = middle + 1
            else:
                high = middle
        del self.entries[low * ENTRY_BYTES :]
        self.written_bytes = min(self.written_bytes, len(self.entries))


def find_position(file: File, size_bytes: int, relative_offset: int) -> int:
    """`position_before` for the index of a closed segment, by a few small reads."""
    low, high = 0, size_bytes // ENTRY_BYTES
    while high - low > _PAGE_ENTRIES:
        middle = (low + high) // 2
        if _unpack(file.read_at(middle * ENTRY_BYTES, ENTRY_BYTES))[0] <= relative_offset:
            low = middle
        else:
            high = middle
    page = file.read_at(low * ENTRY_BYTES, (high - low) * ENTRY_BYTES)
    return _position_in(page, 0, len(page) // ENTRY_BYTES, relative_offset)


def find_offset_from(file: File, size_bytes: int, position: int) -> int | None:
    """`offset_from` for the index of a closed segment, by a few small reads."""
    low, high = 0, size_bytes // ENTRY_BYTES
    while high - low > _PAGE_ENTRIES:
        middle = (low + high) // 2
        if _unpack(file.read_at(middle * ENTRY_BYTES, ENTRY_BYTES))[1] < position:
            low = middle
        else:
            high = middle + 1
    page = file.read_at(low * ENTRY_BYTES, (high - low) * ENTRY_BYTES)
    return _offset_in(page, len(page) // ENTRY_BYTES, position)


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


def _position_in(entries: bytes | bytearray, low: int, high: int, relative_offset: int) -> int:
    while low < high:
        middle = (low + high) // 2
        if _unpack(entries, middle * ENTRY_BYTES)[0] <= relative_offset:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0
    position: int = _unpack(entries, (low - 1) * ENTRY_BYTES)[1]
    return position


def _offset_in(entries: bytes | bytearray, count: int, position: int) -> int | None:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _unpack(entries, middle * ENTRY_BYTES)[1] < position:
            low = middle + 1
        else:
            high = middle
    if low == count:
        return None
    relative_offset: int = _unpack(entries, low * ENTRY_BYTES)[0]
    return relative_offset
