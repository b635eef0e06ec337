"""Records, and how to read them out of a batch.

A record is: length, attributes (1 byte, unused), timestamp delta, offset delta, key, value,
headers. All numbers are zigzag varints; key, value and header values may be null (length -1).
Nothing in here trusts a number: whatever the bytes are, reading them ends, takes no more memory
than the limit, and raises nothing but KafkaError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    Buffer,
    batch_size,
    parse_header,
)
from ottla.records.compression import Compression, decompress
from ottla.records.errors import CorruptRecord

DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024
"""What the records of one batch may come to: as much as one request could have carried without
compression (the default of `socket.request.max.bytes`)."""

RECORD_BYTES_MIN = 7
_HEADER_BYTES_MIN = 2
_NULL = 1  # -1 as a zigzag varint

_new_tuple = tuple.__new__

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def iter_records(batch: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of one whole batch, of which the CRC is not looked at."""
    header = parse_header(batch)
    if batch_size(batch) != len(batch):
        raise CorruptRecord(f"a batch of {header.size_bytes} bytes is in {len(batch)} bytes")
    data = records_data(batch, header, limit_bytes=limit_bytes)
    return _iter_data(data, header)


def records_data(
    batch: Buffer, header: BatchHeader, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """What follows the header, decompressed."""
    try:
        kind = Compression(header.attributes & COMPRESSION_MASK)
    except ValueError:
        raise CorruptRecord(f"there is no compression with id {header.compression}") from None
    return decompress(kind, memoryview(batch)[HEADER_BYTES:], limit_bytes)


def _iter_data(data: bytes, header: BatchHeader) -> Iterator[Record]:
    if not 0 <= header.record_count <= len(data) // RECORD_BYTES_MIN:
        raise CorruptRecord(f"{len(data)} bytes cannot hold {header.record_count} records")
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    is_log_append_time = header.attributes & LOG_APPEND_TIME_FLAG
    position = 0
    for _ in range(header.record_count):
        try:
            record, position = _read(data, position, base_offset, base_timestamp)
        except IndexError:
            raise CorruptRecord("the last record of a batch is cut off") from None
        yield record._replace(timestamp=header.max_timestamp) if is_log_append_time else record
    if position != len(data):
        raise CorruptRecord(
            f"{len(data) - position} bytes follow the last of {header.record_count} records"
        )


def _read(data: bytes, position: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """One record, and the position behind it; an IndexError is the end of the data. One-byte
    varints are decoded inline, because a call for each costs as much as all the rest."""
    size = data[position]
    if size < 0x80:
        position += 1
        size = (size >> 1) ^ -(size & 1)
    else:
        size, position = read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise CorruptRecord(f"a record claims {size} bytes, {len(data) - position} are left")
    position += 1  # attributes, of which none is defined
    delta = data[position]
    if delta < 0x80:
        position += 1
        timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
    else:
        delta, position = read_varlong(data, position)
        timestamp = base_timestamp + delta
    delta = data[position]
    if delta < 0x80:
        position += 1
        offset = base_offset + ((delta >> 1) ^ -(delta & 1))
    else:
        delta, position = read_varint(data, position)
        offset = base_offset + delta
    key: bytes | None = None
    if data[position] == _NULL:
        position += 1
    else:
        key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    headers: tuple[Header, ...] = ()
    if data[position] == 0:
        position += 1
    else:
        headers, position = _read_headers(data, position, end)
    if position != end:
        raise CorruptRecord(f"a record of {size} bytes ends {position - end} bytes off")
    return _new_tuple(Record, (offset, timestamp, key, value, headers)), end


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        position += 1
        size = (byte >> 1) ^ -(byte & 1)
    else:
        size, position = read_varint(data, position)
    if size < 0:  # Java takes any negative length as null
        return None, position
    stop = position + size
    if stop > end:
        raise CorruptRecord(f"a field claims {size} bytes, {end - position} are left")
    return data[position:stop], stop


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= (end - position) // _HEADER_BYTES_MIN:
        raise CorruptRecord(f"a record claims {count} headers in {end - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise CorruptRecord("a record header has no key")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode(errors="replace"), value))
    return tuple(headers), position


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag number of 32 bits, and the position behind it."""
    raw, position = _read_unsigned(data, position, 28)
    raw &= 0xFFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag number of 64 bits, and the position behind it."""
    raw, position = _read_unsigned(data, position, 63)
    raw &= 0xFFFF_FFFF_FFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), position


def _read_unsigned(data: Buffer, position: int, shift_max: int) -> tuple[int, int]:
    byte = data[position]
    raw = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > shift_max:
            raise CorruptRecord(f"a varint has more than {shift // 7} bytes")
        position += 1
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        shift += 7
    return raw, position + 1
