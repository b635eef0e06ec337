"""The columns of a record, named and typed as Spark's own Kafka connector has them, so that a job
changes one word to read from here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADERS_TYPE = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}

COLUMNS = tuple(_TYPES)


def schema(columns: Sequence[str]) -> pa.Schema:
    """Of these columns in this order. Raises ValueError for one that there is not."""
    for name in columns:
        if name not in _TYPES:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(COLUMNS)}")
    return pa.schema([pa.field(name, _TYPES[name]) for name in columns])


def cut(
    data: pa.Buffer,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    is_valid: npt.NDArray[np.bool_] | None = None,
) -> pa.BinaryArray:
    """These pieces of the data, which do not overlap and come in order. The array to pick from has
    what lies between them as elements too, and shares the data; picking is the one copy."""
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), data])
    picked = both.take(fixed(np.arange(0, 2 * count, 2, dtype=np.int32)))
    if is_valid is None:
        return picked
    _, offsets, values = picked.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [bitmap(is_valid), offsets, values])


def fixed(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> pa.Array:
    """The same memory as an Arrow array. `pa.array` would import pandas, to see whether it is one
    of its own: most of a second for each new process."""
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)]
    )


def bitmap(is_valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Arrow's way to say which elements are not null."""
    if is_valid.all():
        return None
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))
