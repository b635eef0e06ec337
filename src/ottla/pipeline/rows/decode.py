"""Record batches to columns, many records at a time.

Where a record ends says only its own length, so that the starts must be found one after the other,
by a loop of a few bytecodes a record. All the rest is done for all records of a fetch together:
each field of all records is read by one numpy call over their positions, then the position moves
on by the field's length, different for each record. No position is checked on the way. They only
move forward, and whatever they read beyond a record's end is thrown away: what must hold, and is
checked for every record, is that the last field ends where the record does.

Keys and values are cut out of the bytes by Arrow: an array whose elements are, in turn, a key, what
lies between, a value and what lies between needs no copy, only offsets; to pick every fourth of its
elements is the one copy that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.pipeline.rows.columns import bitmap, cut, fixed, schema
from ottla.pipeline.rows.decode_headers import headers_column
from ottla.pipeline.rows.varints import (
    VARLONG_BYTES_MAX,
    BadVarint,
    Bytes,
    Ints,
    read_varints,
)
from ottla.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    TimestampType,
    is_crc_valid,
    iter_headers,
)
from ottla.records.compression import Compression
from ottla.records.control import parse_end_txn_marker
from ottla.records.errors import CorruptRecord
from ottla.records.record import RECORD_BYTES_MIN, read_varint, records_data

BATCH_BYTES_MAX = 128 * 1024 * 1024
"""What one batch may decompress to. Brokers take 100 MB in one request, before compression."""
DECODED_BYTES_AT_ONCE = 32 * 1024 * 1024
"""When so many bytes of records are at hand, the batches that follow wait for the next call.
Bounds the memory, and keeps Arrow's 32-bit offsets far from their end."""

_RUN_MIN = 16
_ONE_BY_ONE = 64
"""Looking ahead in vain costs as much as two records; it is done once for so many."""

_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


class Decoded(NamedTuple):
    batch: pa.RecordBatch
    next_offset: int
    """Where to read on: behind the last whole batch, whatever of it was wanted."""
    consumed_bytes: int
    """How much of the content this is. What is left is for another call, or half a batch."""


class AbortedTransactions:
    """Which batches of one Fetch response belong to transactions that were aborted. Lives as long
    as its response: a broker lists what concerns the records in it (KIP-98)."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """(producer id, first offset) of each."""
        self._waiting = sorted(aborted, key=lambda one: one[1], reverse=True)
        self._open: set[int] = set()

    def is_aborted(self, header: BatchHeader, batch: memoryview) -> bool:
        """Of each batch in turn, control batches included."""
        while self._waiting and self._waiting[-1][1] <= header.last_offset:
            self._open.add(self._waiting.pop()[0])
        if not header.is_transactional or header.producer_id not in self._open:
            return False
        if not header.is_control:
            return True
        marker = parse_end_txn_marker(batch)
        if marker is not None and not marker.is_commit:
            self._open.discard(header.producer_id)
        return True


def decode_batches(
    content: memoryview,
    *,
    topic: str,
    partition: int,
    columns: Sequence[str],
    start_offset: int,
    end_offset: int,
    aborted: AbortedTransactions | None = None,
) -> Decoded:
    """The records of whole batches at offsets from `start_offset` up to and without `end_offset`.
    With `aborted` those of aborted transactions are left out. Raises CorruptRecord."""
    scan = _Scan(content)
    next_offset = start_offset
    position = 0
    try:
        for position, header in iter_headers(content, allow_partial=True):
            if header.base_offset >= end_offset:
                next_offset = end_offset
                break
            if scan.byte_count >= DECODED_BYTES_AT_ONCE:
                break
            start, position = position, position + header.size_bytes
            if header.next_offset <= start_offset:
                continue
            batch = content[start:position]
            if not is_crc_valid(batch):
                raise CorruptRecord(f"the CRC of the batch at {header.base_offset} is wrong")
            next_offset = max(next_offset, min(header.next_offset, end_offset))
            is_aborted = aborted is not None and aborted.is_aborted(header, batch)
            if not is_aborted and not header.is_control:
                scan.add(batch, start, header)
        if scan.byte_count == 0:
            found = pa.RecordBatch.from_pylist([], schema=schema(columns))
        else:
            records = scan.records().between(start_offset, end_offset)
            found = records.columns(columns, topic, partition)
    except (CorruptRecord, BadVarint) as error:
        raise CorruptRecord(f"{topic}-{partition} from offset {start_offset}: {error}") from error
    return Decoded(found, next_offset, position)


class _Scan:
    """The batches of one call. Lives as long as that. Records that are not compressed stay where
    they are; as soon as there are others, all are put together in memory of their own."""

    def __init__(self, content: memoryview) -> None:
        self.byte_count = 0
        self._content = content
        self._starts: list[int] = []
        self._counts: list[int] = []
        self._pieces: list[Buffer] = []
        self._places: list[int] = []
        self._headers: list[BatchHeader] = []
        self._is_compressed = False

    def add(self, batch: memoryview, place: int, header: BatchHeader) -> None:
        if header.compression == Compression.NONE:
            data: Buffer = batch[HEADER_BYTES:]
        else:
            data = records_data(batch, header, limit_bytes=BATCH_BYTES_MAX)
            self._is_compressed = True
        if header.record_count == 0 and not data:  # a cleaner keeps it for its producer's state
            return
        if not 0 < header.record_count <= len(data) // RECORD_BYTES_MIN:
            raise CorruptRecord(
                f"the batch at {header.base_offset} claims {header.record_count} records "
                f"in {len(data)} bytes"
            )
        _append_starts(data, header.record_count, self._starts)
        self.byte_count += len(data)
        self._pieces.append(data)
        self._places.append(place + HEADER_BYTES)
        self._counts.append(header.record_count)
        self._headers.append(header)

    def records(self) -> _Records:
        data, starts, ends = self._positions()
        sizes, at = read_varints(data, starts)
        if not np.array_equal(at + sizes, ends):
            raise CorruptRecord("a record has a negative length")
        # Behind attributes, of which none is defined.
        timestamp_deltas, at = read_varints(data, at + 1, VARLONG_BYTES_MAX)
        offset_deltas, at = read_varints(data, at)
        key_sizes, key_starts = read_varints(data, at)
        value_sizes, value_starts = read_varints(data, key_starts + np.maximum(key_sizes, 0))
        header_counts, at = read_varints(data, value_starts + np.maximum(value_sizes, 0))
        has_none = header_counts == 0
        if (at > ends).any() or not np.array_equal(at[has_none], ends[has_none]):
            raise CorruptRecord("the fields of a record end where the record does not")
        types = self._each([header.timestamp_type for header in self._headers])
        if types.any():  # a broker that stamps records leaves their own deltas as they came
            timestamp_deltas = timestamp_deltas * (types == TimestampType.CREATE_TIME)
        return _Records(
            data=data,
            ends=ends,
            offsets=self._each([header.base_offset for header in self._headers]) + offset_deltas,
            timestamps=self._each([_timestamp_base(header) for header in self._headers])
            + timestamp_deltas,
            timestamp_types=types,
            key_starts=key_starts,
            key_sizes=key_sizes,
            value_starts=value_starts,
            value_sizes=value_sizes,
            headers_starts=at,
            header_counts=header_counts,
        )

    def _positions(self) -> tuple[Bytes, Ints, Ints]:
        """The bytes, and where in them each record begins and ends."""
        counts = np.array(self._counts, np.int64)
        sizes = np.array([len(piece) for piece in self._pieces], np.int64)
        if self._is_compressed:
            data = np.frombuffer(b"".join(self._pieces), np.uint8)
            places = np.cumsum(sizes) - sizes
        else:
            data = np.frombuffer(self._content, np.uint8)
            places = np.array(self._places, np.int64)
        starts = np.array(self._starts, np.int64)
        starts += np.repeat(places, counts)
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[np.cumsum(counts) - 1] = places + sizes
        return data, starts, ends

    def _each(self, of_batches: list[int]) -> Ints:
        """What all records of a batch have in common, for each record."""
        return np.repeat(np.array(of_batches, np.int64), self._counts)


def _append_starts(data: Buffer, count: int, starts: list[int]) -> None:
    """Where each record begins: where the one before ends. Records of one length, which many
    topics have, are found many at a time. That is a guess, as is that no length is negative: when
    all lengths are read, each must lead to the next start."""
    position = 0
    left = count
    try:
        while left > 0:
            run, size = _equal_ahead(data, position, left)
            if run:
                starts.extend(range(position, position + run * size, size))
                position += run * size
            else:
                run = min(left, _ONE_BY_ONE)
                position = _append_next(data, position, run, starts)
            left -= run
    except IndexError:
        raise CorruptRecord("the last record of a batch is cut off") from None
    if position != len(data):
        raise CorruptRecord(f"{count} records end {position - len(data)} bytes off their batch")


def _append_next(data: Buffer, position: int, count: int, starts: list[int]) -> int:
    """One bytecode more in this loop is one percent of all decoding."""
    append = starts.append
    for _ in range(count):
        append(position)
        first = data[position]
        if first < 0x80:
            position += 1 + (first >> 1)
            continue
        second = data[position + 1]
        if second < 0x80:
            position += 2 + (first >> 1 & 0x3F) + (second << 6)
            continue
        size, position = read_varint(data, position)
        position += abs(size)
    return position


def _equal_ahead(data: Buffer, position: int, count_max: int) -> tuple[int, int]:
    """How many records from here on have lengths of the same bytes, as far as one can see, and
    what each of them takes; 0 where it is not worth it."""
    first, second = data[position], data[position + 1]
    if first < 0x80:
        size, width = 1 + (first >> 1), 1
    elif second < 0x80:
        size, width = 2 + (first >> 1 & 0x3F) + (second << 6), 2
    else:
        return 0, 0
    for count in (_RUN_MIN, count_max):
        end = position + count * size
        lengths = bytes(data[position:end:size])
        run = len(lengths) - len(lengths.lstrip(lengths[:1]))
        if width == 2:
            lengths = bytes(data[position + 1 : end : size])
            run = min(run, len(lengths) - len(lengths.lstrip(lengths[:1])))
        if run < _RUN_MIN:
            return 0, 0
    return run, size


def _timestamp_base(header: BatchHeader) -> int:
    is_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return header.max_timestamp if is_stamped else header.base_timestamp


@dataclass(frozen=True, slots=True)
class _Records:
    """The fields of all records of one call, each as an array. Keys and values as where they are
    in the data; a size below zero is null. Lives as long as the call."""

    data: Bytes
    ends: Ints
    offsets: Ints
    timestamps: Ints
    timestamp_types: Ints
    key_starts: Ints
    key_sizes: Ints
    value_starts: Ints
    value_sizes: Ints
    headers_starts: Ints
    """Behind their count."""
    header_counts: Ints

    def between(self, start_offset: int, end_offset: int) -> _Records:
        offsets = self.offsets
        if offsets.min() >= start_offset and offsets.max() < end_offset:
            return self
        is_wanted = (offsets >= start_offset) & (offsets < end_offset)
        picked = {
            field.name: getattr(self, field.name)[is_wanted]
            for field in fields(self)
            if field.name != "data"
        }
        return replace(self, **picked)

    def columns(self, names: Sequence[str], topic: str, partition: int) -> pa.RecordBatch:
        arrays = [self._column(name, topic, partition) for name in names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema(names))

    def _column(self, name: str, topic: str, partition: int) -> pa.Array:
        match name:
            case "key":
                return self._cut(self.key_starts, self.key_sizes)
            case "value":
                return self._cut(self.value_starts, self.value_sizes)
            case "topic":
                return pa.repeat(pa.scalar(topic, pa.string()), len(self.offsets))
            case "partition":
                return fixed(np.full(len(self.offsets), partition, np.int32))
            case "offset":
                return fixed(self.offsets)
            case "timestamp":
                return _microseconds(self.timestamps)
            case "timestampType":
                return fixed(self.timestamp_types.astype(np.int32))
            case _:
                return headers_column(self.data, self.headers_starts, self.header_counts, self.ends)

    def _cut(self, starts: Ints, sizes: Ints) -> pa.BinaryArray:
        if (sizes < 0).all():
            return pa.nulls(len(sizes), pa.binary())
        return cut(pa.py_buffer(self.data), starts, starts + np.maximum(sizes, 0), sizes >= 0)


def _microseconds(timestamps_ms: Ints) -> pa.Array:
    """Milliseconds beyond what Spark's type can hold, some 290,000 years, become null: not a time
    that nobody meant, nor an error that no restart would get past."""
    is_possible = np.abs(timestamps_ms) <= _TIMESTAMP_MS_MAX
    buffers = [bitmap(is_possible), pa.py_buffer(timestamps_ms * 1000)]
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), len(timestamps_ms), buffers)
