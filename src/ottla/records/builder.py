"""Building batches: from records, or out of another batch with another compression."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum

from ottla.kernel.workers import giving_way
from ottla.records.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_AT,
    HEADER_BYTES,
    HEADER_STRUCT,
    LENGTH_AT,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    Buffer,
    TimestampType,
    compute_crc,
    parse_header,
)
from ottla.records.compression import Compression, compress
from ottla.records.errors import CorruptRecord
from ottla.records.offset_deltas import are_numbered
from ottla.records.record import (
    DECOMPRESSED_BYTES_MAX,
    Header,
    Record,
    read_varint,
    read_varlong,
    records_data,
)

_CONTROL_KEY = struct.Struct(">hh")
_END_TXN_VALUE = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record says: how a transaction ended."""

    ABORT = 0
    COMMIT = 1


def build_batch(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    base_offset: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """One batch with these records at their own offsets, which rise. Without a `base_offset` it
    begins at the first record's. A bytearray, so that a leader can patch it in place."""
    assert records, "a batch has at least one record"
    if base_offset is None:
        base_offset = records[0].offset
    base_timestamp = records[0].timestamp
    max_timestamp = NO_TIMESTAMP
    encoded: list[bytes] = []
    for record in records:
        encoded.append(encode_record(record, base_offset, base_timestamp))
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
    data = b"".join(encoded)
    return assemble_batch(
        data if compression is Compression.NONE else compress(compression, data, level),
        record_count=len(records),
        base_offset=base_offset,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=(
            compression
            | (LOG_APPEND_TIME_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
        ),
    )


def assemble_batch(
    body: bytes,
    *,
    record_count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> bytearray:
    """The batch whose records are these bytes: for whoever encodes them one by one."""
    batch = bytearray(HEADER_BYTES)
    HEADER_STRUCT.pack_into(
        batch,
        0,
        base_offset,
        HEADER_BYTES + len(body) - LOG_OVERHEAD_BYTES,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    batch += body
    _set_crc(batch)
    return batch


def build_end_txn_marker(
    kind: ControlType,
    *,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch that ends a transaction in a partition."""
    key = _CONTROL_KEY.pack(0, kind)
    value = _END_TXN_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        [Record(offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def recompress(
    batch: Buffer,
    kind: Compression,
    level: int | None = None,
    *,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    """The same batch with its records compressed in another way. The records themselves are
    carried over as bytes: timestamps, producer fields and count cannot change. Their offsets follow
    one another, as in Kafka, where a producer has left gaps."""
    header = parse_header(batch)
    data = records_data(batch, header, limit_bytes=limit_bytes)
    if not are_numbered(data, header.record_count):
        data = _numbered(data, header.record_count)
    body = compress(kind, data, level)
    rebuilt = bytearray(memoryview(batch)[:HEADER_BYTES])
    rebuilt += body
    struct.pack_into(">i", rebuilt, LENGTH_AT, len(rebuilt) - LOG_OVERHEAD_BYTES)
    struct.pack_into(">h", rebuilt, ATTRIBUTES_AT, header.attributes & ~COMPRESSION_MASK | kind)
    _set_crc(rebuilt)
    return rebuilt


def _numbered(data: bytes, record_count: int) -> bytes:
    """The records with other offset deltas: 0, 1, 2 and so on."""
    parts: list[bytes] = []
    position = 0
    try:
        for number in giving_way(range(record_count)):
            size, begin = read_varint(data, position)
            _, offset_at = read_varlong(data, begin + 1)
            _, rest_at = read_varint(data, offset_at)
            position = begin + size
            delta = varint(number)
            moved = size - (rest_at - offset_at) + len(delta)
            parts += (varint(moved), data[begin:offset_at], delta, data[rest_at:position])
    except IndexError:
        raise CorruptRecord(f"the last of {record_count} records is cut off") from None
    return b"".join(parts)


def _set_crc(batch: bytearray) -> None:
    struct.pack_into(">I", batch, CRC_AT, compute_crc(batch))


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """As it stands in a batch that begins with these."""
    key, value, headers = record.key, record.value, record.headers
    body = b"".join(
        (
            b"\0",  # attributes: none exist
            varint(record.timestamp - base_timestamp),
            varint(record.offset - base_offset),
            _NULL if key is None else varint(len(key)) + key,
            _NULL if value is None else varint(len(value)) + value,
            _encode_headers(headers) if headers else b"\0",
        )
    )
    return varint(len(body)) + body


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (varint(len(name)), name)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


_NULL = b"\1"  # -1, as a length
_ONE_BYTE = tuple(bytes((raw,)) for raw in range(0x80))


def varint(value: int) -> bytes:
    """A zigzag number of up to 64 bits."""
    raw = (value << 1) ^ (value >> 63)
    if raw < 0x80:
        return _ONE_BYTE[raw]
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)
