"""What a follower got from its leader, before it is appended."""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    HEADER_STRUCT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    batch_size,
)
from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecord
from ottla.storage.roll_limits import RollLimits

RUN_BATCH_COUNT_MAX = 256
"""Half a millisecond of work on the loop, where batches are small."""

_unpack_header = HEADER_STRUCT.unpack_from
_new_tuple = tuple.__new__


class Run(NamedTuple):
    """Neighbouring batches that fit into one segment."""

    size_bytes: int
    headers: list[BatchHeader]
    must_roll: bool
    """Whether the first needs another segment, unless this one is empty."""


def read_run(
    buffer: memoryview, next_offset: int, segment_bytes: int, limits: RollLimits, now_ms: int
) -> Run:
    """From the buffer's start on, for a segment of that size with these limits; the first batch is
    taken whether it fits or not. Each is intact and comes after the one before, or KafkaError is
    raised. A last batch that is cut off, as Fetch responses have them, is left out.

    A follower that catches up gets hundreds of thousands: this is one loop without calls, but for
    what has to look into the bytes."""
    position, buffer_end = 0, len(buffer)
    end_max = limits.size_bytes - segment_bytes
    timestamp_max = limits.timestamp
    offset_max = limits.offset if now_ms <= limits.now_ms else -1
    headers: list[BatchHeader] = []
    must_roll = False
    while buffer_end - position >= HEADER_BYTES and len(headers) < RUN_BATCH_COUNT_MAX:
        header = _new_tuple(BatchHeader, _unpack_header(buffer, position))
        base_offset, batch_length, _, magic, crc, _, delta, _, max_timestamp, *_ = header
        end = position + batch_length + LOG_OVERHEAD_BYTES
        if magic != MAGIC or end < position + HEADER_BYTES:
            batch_size(buffer, position)  # Raises CorruptRecord.
        if end > buffer_end:
            break
        last_offset = base_offset + delta
        if end > end_max or max_timestamp > timestamp_max or last_offset > offset_max:
            if headers:
                break
            must_roll = True
        if crc32c(buffer[position + ATTRIBUTES_AT : end]) != crc:
            raise CorruptRecord(f"the batch at offset {base_offset} fails its CRC")
        if base_offset < next_offset:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Offset {base_offset} is not after the end of the log, {next_offset}",
            )
        headers.append(header)
        next_offset = last_offset + 1
        position = end
    return Run(position, headers, must_roll)
