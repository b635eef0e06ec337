"""Reading the files of a log for a person: what is in them, and what is wrong with it.

Everything is opened for reading only and trusted in nothing, since a file that somebody wants to
look at may be the one that is broken. A dump is a stream of entries and problems.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from ottla.config.properties import PropertiesError, parse_properties
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import topic_id_text
from ottla.records.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    TimestampType,
    is_crc_valid,
    parse_header,
)
from ottla.records.compression import Compression
from ottla.records.record import Record, iter_records
from ottla.storage import file_names, offset_index, time_index
from ottla.storage.checkpoint import parse_checkpoint
from ottla.storage.errors import CorruptFile
from ottla.storage.partition_metadata import parse_partition_metadata
from ottla.storage.producer_snapshot import decode_snapshot

_READ_BUFFER_BYTES = 1024 * 1024
_OFFSET_ENTRY = struct.Struct(">II")
_TIME_ENTRY = struct.Struct(">qI")
_TXN_ENTRY = struct.Struct(">hqqqq")
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_TYPES = {0: "abort", 1: "commit"}
_OFFSET_CHECKPOINTS = (
    file_names.RECOVERY_POINT_CHECKPOINT,
    file_names.LOG_START_OFFSET_CHECKPOINT,
    file_names.REPLICATION_OFFSET_CHECKPOINT,
    file_names.CLEANER_OFFSET_CHECKPOINT,
)


class Entry(NamedTuple):
    kind: str
    fields: dict[str, Any]


class Problem(NamedTuple):
    text: str


Dump = Iterator[Entry | Problem]


class _Batch(NamedTuple):
    position: int
    header: BatchHeader
    content: bytes


def dump_file(path: str, *, with_records: bool = False) -> Dump | None:
    """None when it is no file of a log. Raises OSError."""
    name = os.path.basename(path)
    split = file_names.split_file_name(name)
    if split is not None:
        base_offset, suffix = split
        if suffix == file_names.LOG_SUFFIX:
            return _dump_log(path, base_offset, with_records)
        if suffix == file_names.OFFSET_INDEX_SUFFIX:
            return _dump_offset_index(path, base_offset)
        if suffix == file_names.TIME_INDEX_SUFFIX:
            return _dump_time_index(path, base_offset)
        if suffix == file_names.TXN_INDEX_SUFFIX:
            return _dump_txn_index(path)
        if suffix == file_names.SNAPSHOT_SUFFIX:
            return _whole(path, _snapshot_entries)
        return None
    if name == file_names.LEADER_EPOCH_CHECKPOINT:
        return _whole(path, _leader_epoch_entries)
    if name in _OFFSET_CHECKPOINTS:
        return _whole(path, _offset_checkpoint_entries)
    if name == file_names.PARTITION_METADATA:
        return _whole(path, _partition_metadata_entries)
    if name == file_names.META_PROPERTIES:
        return _whole(path, _meta_properties_entries)
    return None


# -- segments -----------------------------------------------------------------------------------


def _dump_log(path: str, base_offset: int, with_records: bool) -> Dump:
    next_offset = base_offset
    for item in _read_batches(path):
        if isinstance(item, Problem):
            yield item
            continue
        header = item.header
        is_valid = is_crc_valid(item.content)
        yield Entry("batch", _batch_fields(item, is_valid))
        where = f"the batch at position {item.position}"
        if not is_valid:
            yield Problem(f"{where} does not have the CRC that it claims")
        if header.base_offset < next_offset:
            yield Problem(
                f"{where} has base offset {header.base_offset}, but must not be below {next_offset}"
            )
        if header.last_offset_delta < 0:
            yield Problem(f"{where} ends before it begins")
        next_offset = max(next_offset, header.next_offset)
        if with_records and is_valid:
            yield from _record_entries(item)


def _read_batches(path: str) -> Iterator[_Batch | Problem]:
    with open(path, "rb", buffering=_READ_BUFFER_BYTES) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        position = 0
        while position < size_bytes:
            head = file.read(HEADER_BYTES)
            if not any(head) and _is_zero_to_end(file):
                return  # `preallocate`: what was not written yet
            if len(head) < HEADER_BYTES:
                yield Problem(f"{len(head)} bytes at position {position} are no whole batch")
                return
            header = parse_header(head)
            size = header.size_bytes
            if header.magic != MAGIC or size < HEADER_BYTES:
                yield Problem(
                    f"there is no batch of format {MAGIC} at position {position} (magic "
                    f"{header.magic}, {size} bytes)"
                )
                return
            if position + size > size_bytes:
                yield Problem(
                    f"the batch at position {position} is cut off: {size} bytes, of which "
                    f"{size_bytes - position} are there"
                )
                return
            yield _Batch(position, header, head + file.read(size - HEADER_BYTES))
            position += size


def _is_zero_to_end(file: BinaryIO) -> bool:
    while chunk := file.read(_READ_BUFFER_BYTES):
        if any(chunk):
            return False
    return True


def _batch_fields(batch: _Batch, is_valid: bool) -> dict[str, Any]:
    header = batch.header
    return {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "size": header.size_bytes,
        "compression": _compression_name(header.compression),
        "timestamp_type": _timestamp_type(header),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "partition_leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "magic": header.magic,
        "crc": header.crc,
        "is_valid": is_valid,
    }


def _timestamp_type(header: BatchHeader) -> str:
    return "log-append" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "create"


def _compression_name(number: int) -> str:
    try:
        return Compression(number).name.lower()
    except ValueError:
        return f"unknown ({number})"


def _record_entries(batch: _Batch) -> Dump:
    header = batch.header
    count = 0
    expected = header.base_offset
    try:
        for record in iter_records(batch.content):
            count += 1
            yield Entry("record", _record_fields(record, header))
            # Compaction leaves gaps, but never goes back.
            if not expected <= record.offset <= header.last_offset:
                yield Problem(
                    f"record {record.offset} is out of order in the batch at {batch.position}"
                )
            expected = record.offset + 1
    except KafkaError as error:
        yield Problem(f"the records of the batch at position {batch.position}: {error}")
        return
    if count != header.record_count:
        yield Problem(
            f"the batch at position {batch.position} claims {header.record_count} records and "
            f"has {count}"
        )


def _record_fields(record: Record, header: BatchHeader) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": record.headers,
    }
    if header.is_control and record.key is not None and len(record.key) >= _CONTROL_KEY.size:
        _, control_type = _CONTROL_KEY.unpack_from(record.key)
        fields["control"] = _CONTROL_TYPES.get(control_type, f"type {control_type}")
    return fields


# -- indexes, each checked against the log beside it --------------------------------------------


def _dump_offset_index(path: str, base_offset: int) -> Dump:
    headers, problem = _headers_beside(path, file_names.OFFSET_INDEX_SUFFIX)
    by_position = dict(headers)
    previous = (-1, -1)
    content = _read(path)
    for relative_offset, position in _entries_of(content, _OFFSET_ENTRY):
        offset = base_offset + relative_offset
        yield Entry("offset_index_entry", {"offset": offset, "position": position})
        header = by_position.get(position)
        if (relative_offset, position) <= previous or position <= previous[1]:
            yield Problem(f"the entry for offset {offset} does not come after the one before it")
        elif problem is None and header is None:
            yield Problem(f"no batch begins at position {position}, as the entry for {offset} says")
        elif header is not None and header.last_offset != offset:
            yield Problem(
                f"the batch at position {position} ends with offset {header.last_offset}, but "
                f"the index says {offset}"
            )
        previous = (relative_offset, position)
    yield from _whole_entries(content, offset_index.ENTRY_BYTES)
    if problem is not None:
        yield problem


def _dump_time_index(path: str, base_offset: int) -> Dump:
    headers, problem = _headers_beside(path, file_names.TIME_INDEX_SUFFIX)
    remaining = iter(headers)
    previous_timestamp, previous_offset = -1, -1
    header: BatchHeader | None = None
    largest = -1
    content = _read(path)
    for timestamp, relative_offset in _entries_of(content, _TIME_ENTRY):
        offset = base_offset + relative_offset
        yield Entry("time_index_entry", {"timestamp": timestamp, "offset": offset})
        if timestamp < previous_timestamp or offset < previous_offset:
            yield Problem(f"the entry for time {timestamp} does not come after the one before it")
            return
        previous_timestamp, previous_offset = timestamp, offset
        while problem is None and (header is None or header.last_offset < offset):
            _, header = next(remaining, (0, None))
            if header is None:
                yield Problem(f"no batch holds offset {offset}, as the entry for {timestamp} says")
                return
            largest = max(largest, header.max_timestamp)
        if header is not None and largest != timestamp:
            yield Problem(
                f"up to offset {offset} the largest timestamp is {largest}, but the index says "
                f"{timestamp}"
            )
    yield from _whole_entries(content, time_index.ENTRY_BYTES)
    if problem is not None:
        yield problem


def _headers_beside(path: str, suffix: str) -> tuple[list[tuple[int, BatchHeader]], Problem | None]:
    """The batches of the log that an index belongs to, by position."""
    log_path = path.removesuffix(suffix) + file_names.LOG_SUFFIX
    if not os.path.exists(log_path):
        return [], Problem(f"it can't be checked: {os.path.basename(log_path)} is not beside it")
    # What is wrong with the log itself is said where the log is shown.
    return [
        (item.position, item.header) for item in _read_batches(log_path) if isinstance(item, _Batch)
    ], None


def _entries_of(content: bytes, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """Up to the zeros that follow: Kafka makes the index of an active segment in its full
    size. The first entry may begin with a zero, but no entry is all zeros."""
    whole = len(content) - len(content) % entry.size
    for fields in entry.iter_unpack(memoryview(content)[:whole]):
        if not any(fields):
            return
        yield fields


def _whole_entries(content: bytes, entry_bytes: int) -> Dump:
    if len(content) % entry_bytes:
        yield Problem(f"{len(content)} bytes are no whole number of entries of {entry_bytes}")


def _dump_txn_index(path: str) -> Dump:
    content = _read(path)
    whole = len(content) - len(content) % _TXN_ENTRY.size
    for fields in _TXN_ENTRY.iter_unpack(memoryview(content)[:whole]):
        names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
        yield Entry("aborted_transaction", dict(zip(names, fields, strict=True)))
    yield from _whole_entries(content, _TXN_ENTRY.size)


# -- small files --------------------------------------------------------------------------------


def _whole(path: str, parse: Callable[[bytes], list[Entry]]) -> Dump:
    try:
        yield from parse(_read(path))
    except (CorruptFile, PropertiesError) as error:
        yield Problem(str(error))


def _snapshot_entries(content: bytes) -> list[Entry]:
    return [
        Entry(
            "producer",
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
                "last_offset": producer.last_offset,
                "last_timestamp": producer.last_timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_first_offset": producer.current_txn_first_offset,
            },
        )
        for producer in decode_snapshot(content)
    ]


def _leader_epoch_entries(content: bytes) -> list[Entry]:
    rows = parse_checkpoint(content, column_count=2)
    return [
        Entry("leader_epoch", {"epoch": int(epoch), "start_offset": int(start)})
        for epoch, start in rows
    ]


def _offset_checkpoint_entries(content: bytes) -> list[Entry]:
    rows = parse_checkpoint(content, column_count=3)
    return [
        Entry("checkpoint", {"topic": topic, "partition": int(partition), "offset": int(offset)})
        for topic, partition, offset in rows
    ]


def _partition_metadata_entries(content: bytes) -> list[Entry]:
    topic_id = parse_partition_metadata(content)
    return [Entry("partition_metadata", {"topic_id": topic_id_text(topic_id)})]


def _meta_properties_entries(content: bytes) -> list[Entry]:
    return [
        Entry("property", {"name": name, "value": value})
        for name, value in parse_properties(content, file_names.META_PROPERTIES).items()
    ]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
