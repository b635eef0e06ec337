"""`OFFSET.snapshot`: the producer state up to that offset, in Kafka's format version 1.

    2  version      4  CRC-32C of what follows      4  count
    and for each producer: producer_id 8, epoch 2, last_sequence 4, last_offset 8,
    offset_delta 4, timestamp 8, coordinator_epoch 4, current_txn_first_offset 8

Of the last five batches only the newest is in it: after a restart an older duplicate is refused
as out of order, in Kafka as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ottla.records.crc import crc32c
from ottla.storage.errors import CorruptFile
from ottla.storage.producer_entry import BatchMetadata, ProducerEntry

VERSION = 1
_VERSION_AND_CRC = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_ENTRIES_AT = _VERSION_AND_CRC.size + _COUNT.size


def encode_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    rows = []
    for entry in producers:
        last = entry.batches[-1] if entry.batches else None
        first_offset = entry.current_txn_first_offset
        rows.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                last.last_sequence if last else -1,
                last.last_offset if last else -1,
                last.offset_delta if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if first_offset is None else first_offset,
            )
        )
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _VERSION_AND_CRC.pack(VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Raises `CorruptFile`."""
    if len(content) < _ENTRIES_AT:
        raise CorruptFile(f"a producer snapshot of {len(content)} bytes")
    version, crc = _VERSION_AND_CRC.unpack_from(content)
    if version != VERSION:
        raise CorruptFile(f"a producer snapshot of version {version}, expected {VERSION}")
    if crc32c(content[_VERSION_AND_CRC.size :]) != crc:
        raise CorruptFile("the CRC of a producer snapshot does not match")
    (count,) = _COUNT.unpack_from(content, _VERSION_AND_CRC.size)
    if len(content) - _ENTRIES_AT != count * _ENTRY.size:
        raise CorruptFile(f"a producer snapshot of {count} entries has {len(content)} bytes")
    return [_entry(*row) for row in _ENTRY.iter_unpack(content[_ENTRIES_AT:])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id, epoch)
    if last_offset >= 0:
        entry.add(epoch, BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    if current_txn_first_offset >= 0:
        entry.current_txn_first_offset = current_txn_first_offset
    return entry
