"""The headers of many records: all first headers together, then all second ones, and so on.

That is quick as long as many records have as many. The rest of a record that has more than others
is read one by one: else a single record with a million headers would cost a million rounds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.pipeline.rows.columns import HEADERS_TYPE, bitmap, cut
from ottla.pipeline.rows.varints import Bytes, Ints, read_varints
from ottla.records.errors import CorruptRecord
from ottla.records.record import read_varint

_HEADER_BYTES_MIN = 2
_TOGETHER_MIN = 128
"""Below so many records a round of numpy calls costs more than reading them one by one."""


class _Found:
    """Where the parts of all headers are, in the order of the records."""

    def __init__(self, count: int) -> None:
        self.key_starts = np.zeros(count, np.int64)
        self.key_ends = np.zeros(count, np.int64)
        self.value_starts = np.zeros(count, np.int64)
        self.value_ends = np.zeros(count, np.int64)
        self.has_value = np.zeros(count, np.bool_)


def headers_column(data: Bytes, positions: Ints, counts: Ints, ends: Ints) -> pa.Array:
    """`positions` are behind the counts, `ends` are the records'. A record without headers has
    null, not an empty list, as in Spark's connector."""
    if (counts < 0).any() or (counts > (ends - positions) // _HEADER_BYTES_MIN).any():
        raise CorruptRecord("a record claims more headers than there is room for")
    if not counts.any():
        return pa.nulls(len(counts), HEADERS_TYPE)
    firsts = np.cumsum(counts) - counts
    found = _Found(int(counts.sum()))
    behind = _read_together(data, positions.copy(), counts, ends, firsts, found)
    if not np.array_equal(behind, ends):
        raise CorruptRecord("the headers of a record end where the record does not")
    buffer = pa.py_buffer(data)
    elements = pa.StructArray.from_arrays(
        [
            _texts(cut(buffer, found.key_starts, found.key_ends)),
            cut(buffer, found.value_starts, found.value_ends, found.has_value),
        ],
        fields=list(HEADERS_TYPE.value_type),
    )
    offsets = np.append(firsts, len(elements)).astype(np.int32)
    return pa.Array.from_buffers(
        HEADERS_TYPE,
        len(counts),
        [bitmap(counts > 0), pa.py_buffer(offsets)],
        children=[elements],
    )


def _read_together(
    data: Bytes, positions: Ints, counts: Ints, ends: Ints, firsts: Ints, found: _Found
) -> Ints:
    active = np.flatnonzero(counts)
    round_number = 0
    while len(active) >= _TOGETHER_MIN:
        index = firsts[active] + round_number
        sizes, at = read_varints(data, positions[active])
        if (sizes < 0).any():
            raise CorruptRecord("a record header has no key")
        found.key_starts[index] = at
        at = at + sizes
        found.key_ends[index] = at
        sizes, at = read_varints(data, at)
        found.value_starts[index] = at
        found.has_value[index] = sizes >= 0
        at = at + np.maximum(sizes, 0)
        found.value_ends[index] = at
        positions[active] = at
        round_number += 1
        active = active[counts[active] > round_number]
    for record in active.tolist():
        place, end = int(positions[record]), int(ends[record])
        if place > end:
            raise CorruptRecord("the headers of a record end where the record does not")
        first, count = int(firsts[record]), int(counts[record])
        rest = data[place:end].tobytes()
        _read_one_by_one(rest, place, first + round_number, first + count, found)
        positions[record] = found.value_ends[first + count - 1]
    return positions


def _read_one_by_one(data: bytes, shift: int, start: int, stop: int, found: _Found) -> None:
    """Headers from `start` on up to and without `stop`, from data that stands at `shift`."""
    position = 0
    try:
        for index in range(start, stop):
            size, position = read_varint(data, position)
            if size < 0:
                raise CorruptRecord("a record header has no key")
            found.key_starts[index] = position + shift
            position += size
            found.key_ends[index] = position + shift
            size, position = read_varint(data, position)
            found.value_starts[index] = position + shift
            found.has_value[index] = size >= 0
            position += max(size, 0)
            found.value_ends[index] = position + shift
    except IndexError:
        raise CorruptRecord("the headers of a record are cut off") from None


def _texts(keys: pa.BinaryArray) -> pa.StringArray:
    """What is no UTF-8 is replaced, as Java does when it reads it."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.as_py().decode(errors="replace") for key in keys], pa.string())
