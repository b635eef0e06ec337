"""Batches as producers send them, and as none does: fields of the header changed, bytes that are no
records."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import CRC_AT, HEADER_BYTES, LENGTH_AT, compute_crc
from ottla.records.builder import build_batch, varint
from ottla.records.compression import Compression, compress
from ottla.records.record import Record
from tests.support.side_by_side import NOW_MS, a_batch

DAY_MS = 24 * 3_600_000


def with_crc(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, CRC_AT, compute_crc(batch))
    return batch


def patched(batch: bytearray, at: int, form: str, value: int) -> bytearray:
    """One field of the header changed, the CRC made right again."""
    struct.pack_into(form, batch, at, value)
    return with_crc(batch)


def with_broken_crc(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


def broken_crc() -> bytearray:
    return with_broken_crc(a_batch(b"v"))


def old_message(magic: int) -> bytes:
    """A message of the formats that Kafka had before 0.11."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW_MS) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    return struct.pack(">qiI", 0, len(body) + 4, 0) + body


def with_gaps(*offset_deltas: int, compression: Compression = Compression.NONE) -> bytearray:
    """Offsets that do not follow one another, under a header that says they do."""
    records = [Record(delta, NOW_MS, b"key", b"v") for delta in offset_deltas]
    batch = build_batch(records, base_offset=0, compression=compression)
    return patched(batch, 23, ">i", len(records) - 1)


def records_of(batch: bytearray) -> bytes:
    return bytes(batch[HEADER_BYTES:])


def with_records(
    records: bytes, record_count: int, compression: Compression = Compression.NONE
) -> bytearray:
    """A batch with a sound header and CRC around these bytes."""
    batch = a_batch(b"v")[:HEADER_BYTES] + records
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)
    struct.pack_into(">h", batch, 21, compression)
    struct.pack_into(">i", batch, 23, record_count - 1)
    struct.pack_into(">i", batch, 57, record_count)
    return with_crc(batch)


# The bytes of a compressed batch, and how many records it claims.
COMPRESSED: dict[str, Callable[[Compression], tuple[bytes, int]]] = {
    "does not decompress": lambda kind: (bytes(range(60)), 1),
    "is cut off": lambda kind: (compress(kind, records_of(a_batch(b"v" * 200)))[:-9], 1),
    "garbage inside": lambda kind: (compress(kind, bytes(range(200, 250))), 1),
    "more records": lambda kind: (compress(kind, records_of(a_batch(b"a", b"b", b"c"))), 2),
    "fewer records": lambda kind: (compress(kind, records_of(a_batch(b"a", b"b", b"c"))), 4),
    "bytes behind": lambda kind: (compress(kind, records_of(a_batch(b"a")) + b"\0"), 1),
}


SENT: dict[str, Callable[[], bytes | bytearray | None]] = {
    "sound": lambda: a_batch(b"v"),
    "three records": lambda: a_batch(b"a", b"b", b"c"),
    "null": lambda: None,
    "empty": lambda: b"",
    "a few bytes": lambda: b"12345",
    "broken crc": broken_crc,
    "magic 0": lambda: old_message(0),
    "magic 1": lambda: old_message(1),
    "magic 3": lambda: patched(a_batch(b"v"), 16, ">b", 3),
    "two batches": lambda: a_batch(b"a") + a_batch(b"b"),
    "base offset 5": lambda: patched(a_batch(b"v"), 0, ">q", 5),
    "negative base offset": lambda: patched(a_batch(b"v"), 0, ">q", -1),
    "length too small": lambda: patched(a_batch(b"v"), LENGTH_AT, ">i", 10),
    "length too large": lambda: patched(a_batch(b"v"), LENGTH_AT, ">i", 1000),
    "no records": lambda: patched(a_batch(b"v")[:HEADER_BYTES], LENGTH_AT, ">i", HEADER_BYTES - 12),
    "count zero": lambda: patched(a_batch(b"v"), 57, ">i", 0),
    "count negative": lambda: patched(a_batch(b"v"), 57, ">i", -1),
    "count too large": lambda: patched(a_batch(b"v"), 57, ">i", 2),
    "last offset delta too large": lambda: patched(a_batch(b"v"), 23, ">i", 7),
    "unknown compression": lambda: patched(a_batch(b"v"), 21, ">h", 5),
    "control": lambda: patched(a_batch(b"v"), 21, ">h", 0x20),
    "transactional without producer": lambda: patched(a_batch(b"v"), 21, ">h", 0x10),
    "log append time": lambda: patched(a_batch(b"v"), 21, ">h", 0x08),
    **{
        f"too new, {kind.name.lower()}": lambda kind=kind: a_batch(  # type: ignore[misc]
            b"v", b"w", timestamp=NOW_MS + 2 * DAY_MS, compression=kind
        )
        for kind in Compression
    },
    "too new": lambda: a_batch(b"v", timestamp=NOW_MS + 2 * DAY_MS),
    "very old": lambda: a_batch(b"v", timestamp=0),
    "without timestamp": lambda: a_batch(b"v", timestamp=-1),
    "negative timestamp": lambda: a_batch(b"v", timestamp=-5),
    "too large": lambda: a_batch(b"v" * 1_048_588),
    "as large as may be": lambda: a_batch(b"v" * (1_048_588 - HEADER_BYTES - 15)),
    "producer id without sequence": lambda: a_batch(b"v", producer_id=5, producer_epoch=0),
    "producer id without epoch": lambda: a_batch(b"v", producer_id=5, base_sequence=0),
    "sequence begins anywhere": lambda: a_batch(
        b"v", producer_id=5, producer_epoch=0, base_sequence=7
    ),
    "garbage": lambda: with_records(bytes(range(200, 250)), 1),
    "nothing but zeros": lambda: with_records(bytes(50), 3),
    "a record of negative length": lambda: with_records(varint(-20) + bytes(30), 1),
    "a record of no length": lambda: with_records(varint(0) + bytes(30), 1),
    "a record longer than the batch": lambda: with_records(varint(500) + bytes(30), 1),
    "a record of a short length": lambda: with_records(varint(3) + bytes(3), 1),
    "more records than counted": lambda: with_records(records_of(a_batch(b"a", b"b", b"c")), 2),
    "fewer records than counted": lambda: with_records(records_of(a_batch(b"a", b"b", b"c")), 4),
    "bytes behind the last record": lambda: with_records(records_of(a_batch(b"a")) + b"\0", 1),
    **{
        f"{what}, {kind.name.lower()}": lambda kind=kind, what=what: with_records(  # type: ignore[misc]
            *COMPRESSED[what](kind), kind
        )
        for kind in Compression
        if kind is not Compression.NONE
        for what in COMPRESSED
    },
    **{
        compression.name.lower(): lambda c=compression: a_batch(b"v" * 1000, compression=c)  # type: ignore[misc]
        for compression in Compression
    },
}

# Where Ottla means to differ: how it answers, and why.
DIFFERS = {
    # Kafka never answers at all (the request dies in it), and the client waits for its time-out.
    "null": ErrorCode.INVALID_RECORD,
    # Kafka: UNKNOWN_SERVER_ERROR, which says nothing.
    "unknown compression": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    # Kafka takes it, and from then on knows the producer with an epoch that no producer has.
    "producer id without epoch": ErrorCode.INVALID_RECORD,
    # Kafka: UNKNOWN_SERVER_ERROR, where an exception comes out of a codec or of its varints.
    "garbage": ErrorCode.INVALID_RECORD,
    **{
        f"{what}, {kind.name.lower()}": ErrorCode.INVALID_RECORD
        for kind in Compression
        if kind is not Compression.NONE
        for what in ("does not decompress", "is cut off")
    },
}
