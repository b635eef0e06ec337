"""`.txnindex`: the transactions whose abort marker lies in a segment.

An entry is 34 bytes: version 0, producer id, the transaction's first offset, the offset of its
marker, and the last stable offset after it. The latter two grow from entry to entry; a transaction
may have begun in an earlier segment. There is no file while there is no entry.

A reader of committed records gets with its records the aborted transactions that overlap them, and
leaves their records out by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from ottla.kernel.disk import File
from ottla.storage.batch_scan import Cold
from ottla.storage.errors import CorruptFile

VERSION = 0
ENTRY_BYTES = 34
_ENTRY = struct.Struct(">hqqqq")
_LAST_OFFSET = struct.Struct(">18xq8x")

# How many entries are read at once.
_PAGE_ENTRIES = 120

ReadAt = Callable[[int, int], bytes | bytearray]


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""
    last_stable_offset: int


class Collected(NamedTuple):
    aborted: list[AbortedTransaction]
    is_complete: bool
    """Whether no later segment can have more of them."""


class TransactionIndex:
    """The index of an active segment. Entries live in memory and go to the file in passing; a
    crash loses those that did not, and recovery builds them again from the log."""

    __slots__ = ("entries", "written_bytes")

    def __init__(self, entries: bytes = b"", *, written_bytes: int = 0) -> None:
        self.entries = bytearray(entries)
        self.written_bytes = written_bytes

    def append(self, aborted: AbortedTransaction) -> None:
        self.entries += _ENTRY.pack(VERSION, *aborted)

    def collect(self, offset: int, upper_offset: int) -> Collected:
        entries = self.entries
        return _collect(
            lambda at, length: entries[at : at + length], len(entries), offset, upper_offset
        )

    def truncate(self, offset: int) -> None:
        """Drops every transaction whose marker is at or above the offset."""
        count = len(self.entries) // ENTRY_BYTES
        while count and _last_offset(self.entries, count - 1) >= offset:
            count -= 1
        del self.entries[count * ENTRY_BYTES :]
        self.written_bytes = min(self.written_bytes, len(self.entries))


def collect_in_file(
    file: File, size_bytes: int, offset: int, upper_offset: int
) -> Collected | Cold:
    """From the index of a closed segment."""
    if not file.is_cached(0, size_bytes):
        return Cold(file, 0, size_bytes)
    return _collect(file.read_at, size_bytes, offset, upper_offset)


def decode(content: bytes, base_offset: int) -> list[AbortedTransaction]:
    """All of an index. Raises `CorruptFile` where it is not what a segment can have."""
    if len(content) % ENTRY_BYTES:
        raise CorruptFile(f"a transaction index of {len(content)} bytes")
    found = []
    previous = base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(content):
        aborted = AbortedTransaction(*fields)
        if version != VERSION:
            raise CorruptFile(f"a transaction index of version {version}, expected {VERSION}")
        if aborted.last_offset <= previous:
            raise CorruptFile(f"a transaction index has {aborted.last_offset} after {previous}")
        previous = aborted.last_offset
        found.append(aborted)
    return found


def _collect(read_at: ReadAt, size_bytes: int, offset: int, upper_offset: int) -> Collected:
    """The transactions of one index that overlap the offsets from `offset` up to `upper_offset`
    (exclusive)."""
    number = _first_ending_at(read_at, size_bytes // ENTRY_BYTES, offset)
    position = number * ENTRY_BYTES
    found = []
    while position < size_bytes:
        page = read_at(position, min(_PAGE_ENTRIES * ENTRY_BYTES, size_bytes - position))
        for _, *fields in _ENTRY.iter_unpack(page):
            aborted = AbortedTransaction(*fields)
            if aborted.first_offset < upper_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_offset:
                return Collected(found, True)
        position += len(page)
    return Collected(found, False)


def _first_ending_at(read_at: ReadAt, count: int, offset: int) -> int:
    """The number of the first entry whose marker is at or above the offset."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        entry = read_at(middle * ENTRY_BYTES, ENTRY_BYTES)
        if _last_offset(entry, 0) < offset:
            low = middle + 1
        else:
            high = middle
    return low


def _last_offset(entries: bytes | bytearray, number: int) -> int:
    last_offset: int = _LAST_OFFSET.unpack_from(entries, number * ENTRY_BYTES)[0]
    return last_offset
