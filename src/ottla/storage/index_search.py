"""Lookups in the entries of an index: all of one size, one field growing from entry to entry."""

from __future__ import annotations

import struct

from ottla.kernel.disk import File

# A lookup in a file reads single entries until what is left is one page, then that page.
_PAGE_BYTES = 4096


def count_below(entries: bytes | bytearray, entry: struct.Struct, field: int, limit: int) -> int:
    """How many entries have less than that in the field."""
    size, unpack = entry.size, entry.unpack_from
    low, high = 0, len(entries) // size
    while low < high:  # bisect with a key takes half as long again.
        middle = (low + high) // 2
        if unpack(entries, middle * size)[field] < limit:
            low = middle + 1
        else:
            high = middle
    return low


def read_page(file: File, size_bytes: int, entry: struct.Struct, field: int, limit: int) -> bytes:
    """By a few small reads: the last entry that has less than that in the field, the first that has
    not, and their neighbours."""
    size, unpack = entry.size, entry.unpack
    low, high = 0, size_bytes // size
    while (high - low) * size > _PAGE_BYTES:
        middle = (low + high) // 2
        if unpack(file.read_at(middle * size, size))[field] < limit:
            low = middle
        else:
            high = middle + 1
    return file.read_at(low * size, (high - low) * size)
