"""The header of a record batch (magic 2), and the changes a broker makes to it in place.

    offset  size  field                     covered by the CRC
         0     8  base_offset               no
         8     4  batch_length              no   (bytes after this field)
        12     4  partition_leader_epoch    no
        16     1  magic                     no
        17     4  crc                       CRC-32C of everything that follows
        21     2  attributes                yes
        23     4  last_offset_delta         yes
        27     8  base_timestamp            yes
        35     8  max_timestamp             yes
        43     8  producer_id               yes
        51     2  producer_epoch            yes
        53     4  base_sequence             yes
        57     4  record_count              yes
        61        the records, compressed together

A leader assigns offsets and its epoch to a batch without touching the CRC: that is why these
fields lie outside of it, and why a broker need not look at the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecord

Buffer = bytes | bytearray | memoryview

HEADER_STRUCT = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""base_offset and batch_length: what `batch_length` does not count."""

MAGIC = 2

LENGTH_AT = 8
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
RECORD_COUNT_AT = 57

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

SEQUENCE_MODULUS = 1 << 31
"""Sequence numbers are positive 32-bit numbers and go from 2^31 - 1 on to 0."""

_unpack_header = HEADER_STRUCT.unpack_from
_new_tuple = tuple.__new__
_INT64 = struct.Struct(">q")
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")
_SIZE_AND_MAGIC = struct.Struct(">iib")


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header as it is in the bytes. A copy: changing the bytes does not change it."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The id; `Compression(header.compression)` names it, where it is one that exists."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When a cleaner may drop the batch's tombstones and markers (KIP-534). The cleaner
        keeps it in the place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULUS


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Reads the 61 bytes at `position` and checks nothing but that they are there. Whoever does
    not know where the bytes come from uses `iter_headers` or `validation`."""
    try:
        return _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise CorruptRecord(
            f"the header of a record batch has {HEADER_BYTES} bytes, "
            f"there are {len(buffer) - position} at position {position}"
        ) from None


def batch_size(buffer: Buffer, position: int = 0) -> int:
    """The whole size of the batch at `position`, whose first 17 bytes must be there. The batch
    itself may reach beyond the end of the buffer."""
    batch_length, _, magic = _SIZE_AND_MAGIC.unpack_from(buffer, position + LENGTH_AT)
    if magic != MAGIC:
        raise CorruptRecord(f"a record batch has magic {MAGIC}, at {position} it is {magic}")
    if batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise CorruptRecord(f"the record batch at {position} claims a length of {batch_length}")
    return int(batch_length) + LOG_OVERHEAD_BYTES


def iter_headers(
    buffer: Buffer, position: int = 0, *, allow_partial: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch, checked for magic and bounds, not for CRC.

    `allow_partial` is for what a Fetch response holds: a broker cuts it at the size that was
    asked for, so that its last batch may be incomplete. That one is left out."""
    end = len(buffer)
    while position < end:
        if end - position <= MAGIC_AT:
            if allow_partial:
                return
            raise CorruptRecord(f"{end - position} bytes at {position} are no record batch")
        size = batch_size(buffer, position)
        if size > end - position:
            if allow_partial:
                return
            raise CorruptRecord(
                f"the record batch at {position} has {size} bytes, {end - position} are there"
            )
        yield position, _new_tuple(BatchHeader, _unpack_header(buffer, position))
        position += size


def compute_crc(batch: Buffer) -> int:
    """CRC-32C over one whole batch (no copy is made)."""
    return crc32c(memoryview(batch)[ATTRIBUTES_AT:])


def is_crc_valid(batch: Buffer) -> bool:
    """Of one whole batch of which header and size have been checked."""
    stored: int = _UINT32.unpack_from(batch, CRC_AT)[0]
    return stored == compute_crc(batch)


patch_place = struct.Struct(">qii").pack_into
"""Gives a batch its place in a log. Takes buffer, position, base offset, batch length (as it is)
and leader epoch: these three begin a batch, and one call is cheaper than two."""


def patch_max_timestamp(
    batch: bytearray | memoryview, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Sets type and maximum of one whole batch's timestamps and computes its CRC anew. The base
    timestamp stays as it was, as in Kafka: readers of a log-append-time batch give each record
    the maximum and ignore base and deltas."""
    attributes = _INT16.unpack_from(batch, ATTRIBUTES_AT)[0] & ~LOG_APPEND_TIME_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes)
    _INT64.pack_into(batch, MAX_TIMESTAMP_AT, max_timestamp)
    _UINT32.pack_into(batch, CRC_AT, compute_crc(batch))
