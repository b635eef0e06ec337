"""Rows of one output partition, many of them in one value: what Spark moves between tasks is then a
few large values, not rows, each of which costs it more than to write it.

A packed row has the topic, the partition, and the rows as a stream in Arrow's format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.sink.parts import GATHERED_BYTES, Part

PACKED = "packed_rows"
SCHEMA = f"topic string, partition int, {PACKED} binary"
_COLUMNS = ["topic", "partition", PACKED]
_TABLE_BYTES = 8_000
"""What a table of Arrow's takes in memory, with nothing in it."""


def is_packed(columns: Sequence[str]) -> bool:
    return list(columns) == _COLUMNS


def packed(parts: Iterable[Part]) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    places: list[TopicPartition] = []
    bounds = [0]
    for where, rows in parts:
        rows = rows.select([name for name in rows.column_names if name not in _COLUMNS])
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        places.append(where)
        bounds.append(sink.tell())
    offsets = pa.py_buffer(np.array(bounds, np.int32))
    return pa.record_batch(
        [
            pa.array([where.topic for where in places], pa.string()),
            pa.array([where.partition for where in places], pa.int32()),
            pa.Array.from_buffers(pa.binary(), len(places), [None, offsets, sink.getvalue()]),
        ],
        names=_COLUMNS,
    )


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    """Rows of one partition stay in their order. What there is of it is joined, up to some size:
    large batches are cheaper."""
    held: dict[TopicPartition, list[pa.Table]] = {}
    held_bytes = 0
    for batch in batches:
        columns = (batch["topic"].to_pylist(), batch["partition"].to_pylist(), batch[PACKED])
        for topic, partition, content in zip(*columns, strict=True):
            packed_bytes = content.as_buffer()
            rows = pa.ipc.open_stream(packed_bytes).read_all()
            held.setdefault(TopicPartition(topic, partition), []).append(rows)
            held_bytes += packed_bytes.size + _TABLE_BYTES
            if held_bytes >= GATHERED_BYTES:
                yield from _joined(held)
                held, held_bytes = {}, 0
    yield from _joined(held)


def _joined(held: dict[TopicPartition, list[pa.Table]]) -> Iterator[Part]:
    for where, tables in held.items():
        yield where, pa.concat_tables(tables)
