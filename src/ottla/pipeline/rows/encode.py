"""Columns to record batches: the way back of `decode`, as many records at a time.

What stands before the key, between key and value, and behind the value of each record is written by
numpy, one field of all records at a time; Arrow then joins it with the keys and values, which makes
the bytes of all records, one behind the other. They are cut into batches, each gets its header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.pipeline.rows.columns import fixed
from ottla.pipeline.rows.varints import (
    VARLONG_BYTES_MAX,
    Bytes,
    Ints,
    varint_sizes,
    write_varints,
    zigzag,
)
from ottla.records.batch import (
    CRC_AT,
    HEADER_BYTES,
    HEADER_STRUCT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MODULUS,
    TRANSACTIONAL_FLAG,
    compute_crc,
)
from ottla.records.compression import Compression, compress

BATCH_BYTES = 1_000_000
"""Below the default of max.message.bytes (1,048,588) by more than what estimates may be wrong."""
RECORDS_MAX = 32_768
"""In a batch. Brokers that must look at every record bound how many they take."""

_AT_ONCE_BYTES = 1_000_000
_LENGTH_BYTES_MAX = 5
_OFFSET_BYTES_MAX = 3
"""Of a delta, since a batch has RECORDS_MAX records at most."""

Raw = npt.NDArray[np.uint64]
Column: TypeAlias = Any
"""An array of Arrow, or one in chunks."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What to encode: arrays of one length. Keys, values and headers may be null."""

    key: pa.BinaryArray | None
    value: pa.BinaryArray
    headers: pa.ListArray | None
    timestamps_ms: Ints

    @classmethod
    def of(
        cls, key: Column | None, value: Column, headers: Column | None, timestamps_ms: Ints
    ) -> Rows:
        """From columns as Spark has them: keys and values may be text, all may come in chunks."""
        if headers is not None:
            headers = _one_array(headers)
            _check_headers(headers)
            headers = _tidy(headers)
        keys = None if key is None else _binary(_one_array(key))
        if keys is not None and keys.null_count == len(keys):
            keys = None
        return cls(keys, _binary(_one_array(value)), headers, timestamps_ms)

    def __len__(self) -> int:
        return len(self.value)

    def slice(self, start: int, count: int) -> Rows:
        """Shares the memory."""
        return Rows(
            None if self.key is None else self.key.slice(start, count),
            self.value.slice(start, count),
            None if self.headers is None else self.headers.slice(start, count),
            self.timestamps_ms[start : start + count],
        )


class EncodedBatch(NamedTuple):
    content: bytearray
    rows: Rows
    """What is in it, should it have to be encoded anew in smaller ones."""
    base_sequence: int


def encode_batches(
    rows: Rows,
    *,
    producer: ProducerIdAndEpoch | None = None,
    base_sequence: int = 0,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[EncodedBatch]:
    """Batches of at most `batch_bytes` before compression, but for a single record that is larger.
    One after the other, so that one can be sent while the next is made."""
    assert not is_transactional or producer is not None, "a transaction has a producer"
    made = _Header(producer, is_transactional, compression, level)
    for chunk, starts in _chunks(rows, batch_bytes):
        data, ends = _encode_records(chunk, starts)
        bounds = [*starts.tolist(), len(chunk)]
        for start, stop in pairwise(bounds):
            part = chunk.slice(start, stop - start)
            content = data[int(ends[start - 1]) if start else 0 : int(ends[stop - 1])]
            yield EncodedBatch(
                made.sealed(content, part.timestamps_ms, base_sequence), part, base_sequence
            )
            base_sequence = (base_sequence + len(part)) % SEQUENCE_MODULUS


class _Header(NamedTuple):
    """What the headers of all batches of one call have in common."""

    producer: ProducerIdAndEpoch | None
    is_transactional: bool
    compression: Compression
    level: int | None

    def sealed(self, data: memoryview, timestamps_ms: Ints, base_sequence: int) -> bytearray:
        body = data
        if self.compression is not Compression.NONE:
            body = memoryview(compress(self.compression, data, self.level))
        producer_id, producer_epoch = self.producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        batch = bytearray(HEADER_BYTES + len(body))
        batch[HEADER_BYTES:] = body
        HEADER_STRUCT.pack_into(
            batch,
            0,
            0,
            len(batch) - LOG_OVERHEAD_BYTES,
            NO_LEADER_EPOCH,
            MAGIC,
            0,
            self.compression | (TRANSACTIONAL_FLAG if self.is_transactional else 0),
            len(timestamps_ms) - 1,
            int(timestamps_ms[0]),
            int(timestamps_ms.max(initial=NO_TIMESTAMP)),
            producer_id,
            producer_epoch,
            base_sequence if self.producer else NO_SEQUENCE,
            len(timestamps_ms),
        )
        struct.pack_into(">I", batch, CRC_AT, compute_crc(batch))
        return batch


def _chunks(rows: Rows, batch_bytes: int) -> Iterator[tuple[Rows, Ints]]:
    """Rows to encode at once, and where in them batches begin."""
    if len(rows) == 0:
        return
    bounds = np.cumsum(_sizes_max(rows))
    start = 0
    while start < len(rows):
        starts = [0]
        stop = _fitting(bounds, start, batch_bytes)
        while stop < len(rows) and bounds[stop - 1] - bounds[start] < _AT_ONCE_BYTES:
            starts.append(stop - start)
            stop = _fitting(bounds, stop, batch_bytes)
        yield rows.slice(start, stop - start), np.array(starts)
        start = stop


def _fitting(bounds: Ints, start: int, batch_bytes: int) -> int:
    """Up to where rows from `start` on fit a batch; one always does."""
    before = int(bounds[start - 1]) if start else 0
    stop = int(np.searchsorted(bounds, before + batch_bytes - HEADER_BYTES, "right"))
    return min(max(stop, start + 1), start + RECORDS_MAX, len(bounds))


def _sizes_max(rows: Rows) -> Ints:
    """What each row takes at most: all but its deltas and its own length are known."""
    span = int(rows.timestamps_ms.max()) - int(rows.timestamps_ms.min())
    timestamp_bytes = min(span.bit_length() // 7 + 1, VARLONG_BYTES_MAX)
    sizes = np.full(len(rows), 1 + timestamp_bytes + _OFFSET_BYTES_MAX + 1, np.int64)
    for array in (rows.key, rows.value):
        lengths, byte_counts = _lengths(array, len(rows))
        sizes += varint_sizes(lengths) + byte_counts
    if rows.headers is not None:
        bounds, names, contents = _header_parts(rows.headers)
        entries = np.diff(_offsets(names)) + np.diff(_offsets(contents)) + 2 * _LENGTH_BYTES_MAX
        totals = np.concatenate([[0], np.cumsum(entries)])
        sizes += np.diff(totals[bounds]) + _LENGTH_BYTES_MAX
    return sizes + varint_sizes(zigzag(sizes))


def _encode_records(rows: Rows, starts: Ints) -> tuple[memoryview, Ints]:
    """All records behind one another, and where each ends."""
    count = len(rows)
    batch_of = np.zeros(count, np.int64)
    batch_of[starts[1:]] = 1
    first = starts[np.cumsum(batch_of)]
    timestamps = zigzag(rows.timestamps_ms - rows.timestamps_ms[first])
    offsets = zigzag(np.arange(count) - first)
    keys, key_bytes = _lengths(rows.key, count)
    values, value_bytes = _lengths(rows.value, count)
    headers = _encode_headers(rows.headers, count)
    header_bytes = 1 if headers is None else np.diff(_offsets(headers))
    before = [timestamps, offsets, keys]
    sizes = [varint_sizes(raw) for raw in before]
    value_sizes = varint_sizes(values)
    record_bytes = 1 + sum(sizes) + key_bytes + value_sizes + value_bytes + header_bytes
    lengths = zigzag(record_bytes)
    length_sizes = varint_sizes(lengths)
    fields = [(lengths, length_sizes), (np.zeros(count, np.uint64), np.ones(count, np.int64))]
    fields += zip(before, sizes, strict=True)
    if headers is None:
        # The empty headers of a record stand before the next one, which saves a piece to join.
        fields.insert(0, (np.zeros(count, np.uint64), np.ones(count, np.int64)))
    pieces: list[pa.BinaryArray] = []
    if rows.key is None:
        pieces = [_written([*fields, (values, value_sizes)]), rows.value]
    else:
        pieces = [_written(fields), rows.key, _written([(values, value_sizes)]), rows.value]
    if headers is not None:
        pieces.append(headers)
    joined = pc.binary_join_element_wise(
        *pieces, pa.scalar(b""), null_handling="replace", null_replacement=b""
    )
    data = joined.buffers()[2]
    ends = np.cumsum(record_bytes + length_sizes)
    if headers is None:
        data = bytearray(memoryview(data)[1:])
        data.append(0)
    return memoryview(data), ends


def _header_parts(headers: pa.ListArray) -> tuple[Ints, pa.BinaryArray, pa.BinaryArray]:
    """Where each row's headers begin, and the keys and values of all."""
    bounds = _offsets(headers)
    first, last = int(bounds[0]), int(bounds[-1])
    names, contents = headers.values.slice(first, last - first).flatten()
    return bounds - first, _binary(names), _binary(contents)


def _encode_headers(headers: pa.ListArray | None, count: int) -> pa.BinaryArray | None:
    """Count and headers of each row. None where no row has any."""
    if headers is None:
        return None
    bounds, names, contents = _header_parts(headers)
    if len(names) == 0:
        return None
    name_lengths, _ = _lengths(names, len(names))
    content_lengths, _ = _lengths(contents, len(contents))
    entries = pc.binary_join_element_wise(
        _written([(name_lengths, varint_sizes(name_lengths))]),
        names,
        _written([(content_lengths, varint_sizes(content_lengths))]),
        contents,
        pa.scalar(b""),
        null_handling="replace",
        null_replacement=b"",
    )
    # The entries of a row stand together already: all that is new is where rows begin.
    row_bounds = _offsets(entries)[bounds].astype(np.int32)
    of_rows = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(row_bounds), entries.buffers()[2]]
    )
    raw_counts = zigzag(np.diff(bounds))
    return pc.binary_join_element_wise(
        _written([(raw_counts, varint_sizes(raw_counts))]), of_rows, pa.scalar(b"")
    )


def _written(fields: list[tuple[Raw, Ints]]) -> pa.BinaryArray:
    """For each row its fields as varints, one behind the other."""
    sizes = np.zeros(len(fields[0][0]), np.int64)
    for _, size in fields:
        sizes += size
    ends = np.cumsum(sizes)
    out: Bytes = np.empty(int(ends[-1]), np.uint8)
    at = ends - sizes
    offsets = np.append(at, ends[-1]).astype(np.int32)
    for raw, size in fields:
        write_varints(out, at, raw, size)
        at = at + size
    return pa.Array.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    )


def _lengths(array: pa.BinaryArray | None, count: int) -> tuple[Raw, Ints | int]:
    """What stands before each: its length or -1, as zigzag; and how many bytes it has."""
    if array is None:
        return np.ones(count, np.uint64), 0
    sizes = np.diff(_offsets(array))
    if array.null_count == 0:
        return zigzag(sizes), sizes
    is_null = ~array.is_valid().to_numpy(zero_copy_only=False)
    sizes[is_null] = 0
    return zigzag(np.where(is_null, -1, sizes)), sizes


def _offsets(array: pa.Array) -> Ints:
    """Of a binary, string or list array, where its elements begin, and the end of the last."""
    found = np.frombuffer(array.buffers()[1], np.int32)
    return found[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _binary(array: pa.Array) -> pa.BinaryArray:
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def _one_array(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _check_headers(headers: pa.ListArray) -> None:
    elements = headers.flatten()
    if elements.null_count or elements.field("key").null_count:
        raise ValueError("a header, or its key, is null: a record's header has a key")


def _tidy(headers: pa.ListArray) -> pa.ListArray:
    """A row without headers may have some in Arrow's memory, which null hides."""
    if headers.null_count == 0:
        return headers
    return headers.take(fixed(np.arange(len(headers))))
