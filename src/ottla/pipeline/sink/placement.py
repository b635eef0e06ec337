"""Rows to the tasks that write them: in a transaction each output partition must be one task's.
This module needs Spark.

Spark's Python writers cannot ask for a distribution of their rows, so whoever writes exactly once
places them first. Rows keep their order within one partition of the input, and so within one key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf

from ottla.pipeline.rows.columns import fixed
from ottla.pipeline.sink.partition_choice import PartitionChoice, partition_count
from ottla.pipeline.sink.write_options import WriteOptions

_TOGETHER = 10_000
"""Rows without a key that go to one partition, before it is the next one's turn."""


def placed(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The same rows with column `partition` filled, those of one output partition in one task.
    `options` are those of the write. The frame may be a stream: partitions of the topic are then
    counted when it begins, and those that are added later are used after a restart."""
    parsed = WriteOptions.parse(options)
    task_count = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    if parsed.topic is None:
        filled = frame.withColumn("partition", _chosen(frame, parsed, {}))
        # Of each topic, one partition beside the other: they are then spread evenly.
        task = sf.pmod(sf.hash("topic").cast("long") + sf.col("partition"), sf.lit(task_count))
        return filled.repartitionById(task_count, task.cast("int"))
    with parsed.connection.cluster() as cluster:
        count = partition_count(cluster, parsed.topic)
    if "key" in frame.columns:
        partition = _chosen(frame, parsed, {parsed.topic: count})
    else:
        partition = _in_turn(frame, count)
    filled = frame.withColumn("partition", partition)
    return filled.repartitionById(min(task_count, count), "partition")


def _in_turn(frame: DataFrame, count: int) -> Column:
    """For rows without keys, which Python need not see."""
    turn = sf.floor(sf.monotonically_increasing_id() / _TOGETHER) + sf.spark_partition_id()
    partition = sf.pmod(turn, sf.lit(count)).cast("int")
    return sf.coalesce("partition", partition) if "partition" in frame.columns else partition


def _chosen(frame: DataFrame, options: WriteOptions, counts: Mapping[str, int]) -> Column:
    """The partition of each row, chosen by Python: Spark has other hashes than Kafka. Only what
    decides is sent there. Partitions of topics that are not in `counts` are counted by tasks."""
    names: list[str] = [name for name in ("topic", "key", "partition") if name in frame.columns]
    if options.topic is not None and "topic" in names:
        names.remove("topic")

    def choose(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return choices(batches, names, options, counts)

    # Its types know no iterators over several columns.
    choice: Any = arrow_udf(choose, "int")  # type: ignore[call-overload]
    chosen: Column = choice(*names)
    return chosen


def choices(
    batches: Iterator[tuple[pa.Array, ...]],
    names: list[str],
    options: WriteOptions,
    counts: Mapping[str, int],
) -> Iterator[pa.Array]:
    """Of the rows of a task, of which these columns are sent."""
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    with options.connection.cluster() as cluster:
        choice = PartitionChoice(
            lambda topic: counts.get(topic) or partition_count(cluster, topic), task=task
        )
        for given in batches:
            # Spark passes a column that is alone as it is.
            arrays = given if isinstance(given, tuple) else (given,)
            columns = dict(zip(names, arrays, strict=True))
            key, named = columns.get("key"), columns.get("partition")
            if options.topic is None:
                found = choice.of_topics(columns["topic"], key, named)
            else:
                found = choice.of_topic(options.topic, key, named, len(arrays[0]))
            yield fixed(found)
