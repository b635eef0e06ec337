"""Walking over the batches of a log file, header by header, by large reads."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from ottla.kernel.disk import File
from ottla.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    is_crc_valid,
    parse_header,
)
from ottla.records.errors import CorruptRecord
from ottla.storage.errors import CorruptFile

_CHUNK_BYTES = 1024 * 1024
# A lookup scans from an index entry to the batch that it looks for: about `index.interval.bytes`.
_LOOKUP_BYTES = 8 * 1024

_LOOKUP = struct.Struct(">qi11xi")
"""base_offset, batch_length and last_offset_delta of a header."""
_RELATIVE_OFFSET_MAX = 2**31 - 1
_BATCH_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES


class Cold(NamedTuple):
    """An answer needs these bytes, and they are not in the page cache. Whoever gets this runs
    `warm` off the loop and asks again."""

    file: File
    offset: int
    length: int

    def warm(self) -> None:
        for offset in range(self.offset, self.offset + self.length, _CHUNK_BYTES):
            self.file.read_at(offset, min(_CHUNK_BYTES, self.offset + self.length - offset))


class ScannedBatch(NamedTuple):
    position: int
    header: BatchHeader
    content: memoryview
    """The whole batch, or only its header when `headers_only` was asked for."""


def find_batch(
    file: File, position: int, end: int, offset: int, *, may_wait: bool = False
) -> int | Cold | None:
    """The position of the first batch that holds the offset or, where that is gone, one above.
    `position` must be that of a batch."""
    unpack = _LOOKUP.unpack_from
    while position < end:
        length = min(_LOOKUP_BYTES, end - position)
        if not may_wait and not file.is_cached(position, length):
            return Cold(file, position, length)
        chunk = file.read_at(position, length)
        at = 0
        while at + _LOOKUP.size <= len(chunk):
            base_offset, batch_length, last_offset_delta = unpack(chunk, at)
            if batch_length < _BATCH_LENGTH_MIN:
                raise CorruptRecord(f"no record batch at {position + at} of {file.path}")
            if base_offset + last_offset_delta >= offset:
                return position + at
            at += batch_length + LOG_OVERHEAD_BYTES
        if at == 0:
            return None
        position += at
    return None


def scan_batches(
    file: File, position: int, end: int, *, headers_only: bool = True
) -> Iterator[ScannedBatch]:
    """Batches between two positions of a file that is known to be sound. Waits for the disk."""
    chunk = memoryview(b"")
    chunk_at = position
    while position + HEADER_BYTES <= end:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk_at, at = position, 0
            chunk = memoryview(file.read_at(position, min(_CHUNK_BYTES, end - position)))
        header = parse_header(chunk, at)
        size = header.size_bytes
        if header.magic != MAGIC or size < HEADER_BYTES or position + size > end:
            raise CorruptFile(f"no record batch at {position} of {file.path}")
        if headers_only:
            content = chunk[at : at + HEADER_BYTES]
        else:
            if at + size > len(chunk):
                chunk_at, at = position, 0
                chunk = memoryview(
                    file.read_at(position, max(size, min(_CHUNK_BYTES, end - position)))
                )
            content = chunk[at : at + size]
        yield ScannedBatch(position, header, content)
        position += size


def scan_valid_batches(file: File, size_bytes: int, base_offset: int) -> Iterator[ScannedBatch]:
    """The batches of a file that a crash may have torn, up to the first that is not whole, not
    intact, or not in order. Waits for the disk."""
    chunk = memoryview(b"")
    chunk_at = position = 0
    next_offset = base_offset
    while position + HEADER_BYTES <= size_bytes:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk_at, at = position, 0
            chunk = memoryview(file.read_at(position, min(_CHUNK_BYTES, size_bytes - position)))
        header = parse_header(chunk, at)
        size = header.size_bytes
        if size < HEADER_BYTES or position + size > size_bytes or header.magic != MAGIC:
            _refuse_old_format(file, position, size_bytes)
            return
        if at + size > len(chunk):
            chunk_at, at = position, 0
            length = max(size, min(_CHUNK_BYTES, size_bytes - position))
            chunk = memoryview(file.read_at(position, length))
        content = chunk[at : at + size]
        if not is_crc_valid(content):
            return
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            return
        # No CRC covers the base offset: a damaged one may be where no index could name it.
        if header.last_offset - base_offset > _RELATIVE_OFFSET_MAX:
            return
        yield ScannedBatch(position, header, content)
        next_offset = header.next_offset
        position += size


_OLD_MESSAGE = struct.Struct(">qiIb")


def _refuse_old_format(file: File, position: int, end: int) -> None:
    """A torn tail may be cut off, but not a message that is intact and merely old (magic 0 and 1,
    from before Kafka 0.11): that is somebody's data."""
    head = file.read_at(position, _OLD_MESSAGE.size)
    if len(head) < _OLD_MESSAGE.size:
        return
    _, length, crc, magic = _OLD_MESSAGE.unpack(head)
    if magic not in (0, 1) or length < 14 or position + LOG_OVERHEAD_BYTES + length > end:
        return
    if zlib.crc32(file.read_at(position + MAGIC_AT, length - 4)) == crc:
        raise CorruptFile(
            f"{file.path} holds messages of format {magic}, older than Kafka 0.11, which are not "
            "supported: let the topic be rewritten by Kafka 3.x first"
        )
