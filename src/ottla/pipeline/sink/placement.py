"""Rows to the tasks that write them: in a transaction each output partition must be one task's.
This module needs Spark.

Spark's Python writers cannot ask for a distribution of their rows, so whoever writes exactly once
places them first. Rows keep their order within one partition of the input, and so within one key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ottla.pipeline.kept_imports import keep_imports
from ottla.pipeline.sink.packing import PACKED, SCHEMA, is_packed, packed
from ottla.pipeline.sink.partition_choice import PartitionChoice, partition_count
from ottla.pipeline.sink.parts import parts_of
from ottla.pipeline.sink.turn import first_turn
from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.sink.write_schema import ColumnError, check_schema


def placed(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The same rows, packed, those of one output partition in one task: for a write with the same
    `options`, and for nothing else. The frame may be a stream."""
    parsed = WriteOptions.parse(options)
    if is_packed(frame.schema.names):
        raise ColumnError(PACKED, "is there already", "place rows once")
    check_schema(frame.schema, parsed)
    task_count = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    if parsed.topic is not None:
        with parsed.connection.cluster() as cluster:
            task_count = min(task_count, partition_count(cluster, parsed.topic))
    needed = ["topic", "partition", "key", "value", "headers"]
    if parsed.has_timestamps:
        needed.append("timestamp")
    rows = frame.select(*(name for name in needed if name in frame.columns))
    # Partitions of a topic go to tasks in turn: they are then spread evenly.
    task = sf.pmod(sf.hash("topic").cast("long") + sf.col("partition"), sf.lit(task_count))
    packing = rows.mapInArrow(partial(packed_rows, options=parsed), SCHEMA)
    return packing.repartitionById(task_count, task.cast("int"))


def packed_rows(
    batches: Iterator[pa.RecordBatch], *, options: WriteOptions
) -> Iterator[pa.RecordBatch]:
    """In a task."""
    with options.connection.cluster() as cluster:
        choice = PartitionChoice(partial(partition_count, cluster), first=first_turn())
        for parts in parts_of(batches, options.topic, choice):
            yield packed(parts)
    keep_imports()
