"""The rows of a task by the partitions that they go to.

Rows come as Spark's Arrow batches, some thousand at a time. They are gathered until there is enough
for large batches to several partitions, then sorted by partition, each partition's in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.rows.columns import fixed
from ottla.pipeline.sink.partition_choice import PartitionChoice, distinct_topics

GATHERED_BYTES = 8_000_000

Part: TypeAlias = tuple[TopicPartition, pa.Table]


def parts_of(
    batches: Iterable[pa.RecordBatch], topic: str | None, choice: PartitionChoice
) -> Iterator[list[Part]]:
    """Of what was gathered at a time. Without a topic of all rows each names its own."""
    for rows in gathered(batches):
        yield [
            part
            for name, of_topic in _by_topic(rows, topic)
            for part in _by_partition(name, of_topic, choice)
        ]


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Some batches at once, each as large as is worth while."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= GATHERED_BYTES:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


def column(rows: pa.Table, name: str) -> pa.ChunkedArray | None:
    return rows[name] if name in rows.column_names else None


def _by_topic(rows: pa.Table, topic: str | None) -> Iterator[tuple[str, pa.Table]]:
    if topic is not None:
        yield topic, rows
        return
    topics = rows["topic"]
    for name in distinct_topics(topics):
        yield name, rows.filter(pc.equal(topics, name))


def _by_partition(topic: str, rows: pa.Table, choice: PartitionChoice) -> Iterator[Part]:
    key, named = column(rows, "key"), column(rows, "partition")
    partitions = choice.of_topic(topic, key, named, rows.num_rows)
    first = int(partitions[0])
    if (partitions == first).all():
        yield TopicPartition(topic, first), rows
        return
    order = np.argsort(partitions, kind="stable")
    rows = rows.take(fixed(order))
    for start, stop, partition in _runs(partitions[order]):
        yield TopicPartition(topic, partition), rows.slice(start, stop - start)


def _runs(numbers: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    """Start, stop and number of each run of the same."""
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(starts):
        yield start, stop, int(numbers[start])
