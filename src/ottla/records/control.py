"""Control records, as they are read. They stand among a partition's records, one to a batch, and
say how a transaction ended; readers skip them.

    key     int16 version, int16 type
    value   int16 version, int32 epoch of the coordinator that ended the transaction

What a newer version adds comes at the end, so it is read as far as it is known, as Kafka does.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    Buffer,
    parse_header,
)
from ottla.records.builder import ControlType
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record, iter_records

CONTROL_BYTES_MAX = 4096
"""What a control batch may decompress to. Kafka's have 17 bytes of records and no compression."""

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")

_TYPES = (ControlType.ABORT, ControlType.COMMIT)
# From the attributes to the end: one record with a key of 4 bytes and a value of 6, both in version
# 0, whose fields of their own (length, attributes, time, offset; lengths; headers) are as short as
# can be.
_USUAL = struct.Struct(">h34xi5shhchic")
_USUAL_BETWEEN = (1, b"\x20\0\0\0\x08", 0, b"\x0c", 0, b"\0")
_USUAL_BYTES = ATTRIBUTES_AT + _USUAL.size


class EndTxnMarker(NamedTuple):
    """How one transaction ended in one partition. Whose it was is in the header of the batch."""

    type: ControlType
    coordinator_epoch: int

    @property
    def is_commit(self) -> bool:
        return self.type is ControlType.COMMIT


def parse_end_txn_marker(batch: Buffer) -> EndTxnMarker | None:
    """The marker in one whole control batch, of which the CRC is not looked at. None where a
    cleaner has dropped the marker, and kept the batch for what its header says of the producer."""
    marker = _parse_usual(batch)
    if marker is not None:
        return marker
    header = parse_header(batch)
    if not (header.is_control and header.is_transactional):
        raise CorruptRecord(f"the batch at offset {header.base_offset} is no transaction marker")
    records = list(iter_records(batch, limit_bytes=CONTROL_BYTES_MAX))
    if not records:
        return None
    if len(records) > 1:
        raise CorruptRecord(
            f"the control batch at offset {header.base_offset} has {len(records)} records"
        )
    return _parse(records[0])


def _parse_usual(batch: Buffer) -> EndTxnMarker | None:
    """As Kafka and this broker write it; None for all else, which may be right or wrong. A leader
    that has just appended a marker reads it this way."""
    if len(batch) != _USUAL_BYTES:
        return None
    attributes, count, before, key_version, type_id, between, value_version, epoch, after = (
        _USUAL.unpack_from(batch, ATTRIBUTES_AT)
    )
    is_usual = (
        attributes & ~LOG_APPEND_TIME_FLAG == TRANSACTIONAL_FLAG | CONTROL_FLAG
        and (count, before, key_version, between, value_version, after) == _USUAL_BETWEEN
        and 0 <= type_id < len(_TYPES)
    )
    return EndTxnMarker(_TYPES[type_id], epoch) if is_usual else None


def _parse(record: Record) -> EndTxnMarker:
    try:
        key_version, type_id = _KEY.unpack_from(record.key or b"")
        value_version, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error:
        raise CorruptRecord(f"the control record at offset {record.offset} is cut off") from None
    if key_version < 0 or value_version < 0:
        raise CorruptRecord(
            f"the control record at offset {record.offset} claims the versions {key_version} of "
            f"its key and {value_version} of its value"
        )
    try:
        type = ControlType(type_id)
    except ValueError:
        raise CorruptRecord(
            f"the control record at offset {record.offset} is of type {type_id}, "
            "which ends no transaction"
        ) from None
    return EndTxnMarker(type, coordinator_epoch)
