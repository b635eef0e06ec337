"""The data source `ottla` of Spark: `spark.read` and `spark.readStream` with `format("ottla")`.
This module needs Spark.

Rows are those of Spark's own Kafka connector. The driver decides which offsets are read; each task
then reads one range of one partition, from its leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.client.blocking import GaveUp
from ottla.client.blocking_cluster import EARLIEST, BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.fetcher import DataLoss, Fetcher
from ottla.pipeline.given_options import OptionError
from ottla.pipeline.offsets import (
    OffsetRange,
    Position,
    limited,
    partitions_of,
    resolve,
    resolve_ranges,
    selected_topics,
    split,
)
from ottla.pipeline.options import Boundary, Everywhere, ReadOptions, parse_columns

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}

_GO_ON = "to go on without what is lost set option failOnDataLoss to false"
_TOPIC_IS_GONE = frozenset(
    {
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class OttlaDataSource(DataSource):
    """Made by Spark, in processes of its own and as often as it likes: what it holds is the
    options, as they were given."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        return StructType([StructField(one, _TYPES[one]) for one in parse_columns(self.options)])

    def reader(self, schema: StructType) -> BatchReader:
        self._check_schema(schema)
        return BatchReader(self.options)

    def streamReader(self, schema: StructType) -> StreamReader:
        self._check_schema(schema)
        return StreamReader(self.options)

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionError(
                "schema", "a record has the columns it has", "remove it, and set columns instead"
            )


class BatchReader(DataSourceReader):
    """Made on the driver, and pickled to every task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = ReadOptions.parse(options)

    def partitions(self) -> list[InputPartition]:
        with self._options.connection.cluster() as cluster:
            ranges = resolve_ranges(cluster, self._options)
        return [InputPartition(one) for one in split(ranges, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there are no partitions Spark makes one up, whose value is None.
        return iter(()) if partition.value is None else read_range(self._options, partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One on the driver for as long as the query runs, in a process of its own, and copies of it
    in the tasks. What a crash leaves is in the checkpoint: each batch is planned there, by its
    two positions, before it is read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = ReadOptions.parse(options, is_stream=True)
        self._target: Position | None = None
        """Where a query that reads what is available now has to end."""

    def initialOffset(self) -> dict[str, Any]:
        with self._options.connection.cluster() as cluster:
            return self._position(cluster, self._options.start).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        with self._options.connection.cluster() as cluster:
            self._target = self._position(cluster, self._options.end)

    def reportLatestOffset(self) -> dict[str, Any]:
        with self._options.connection.cluster() as cluster:
            return self._position(cluster, self._options.end).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = Position.from_json(start)
        with self._options.connection.cluster() as cluster:
            latest = self._target or self._position(cluster, self._options.end)
            self._check_loss(begun, latest)
            starts = self._starts(cluster, begun, latest)
        ends = latest.offsets
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        return Position(ends, latest.topic_ids).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begun, ended = Position.from_json(start), Position.from_json(end)
        with self._options.connection.cluster() as cluster:
            starts = self._starts(cluster, begun, ended)
        ranges = [
            OffsetRange(
                where.topic, ended.topic_ids[where.topic], where.partition, starts[where], offset
            )
            for where, offset in ended.offsets.items()
        ]
        return [InputPartition(one) for one in split(ranges, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, partition.value)

    def _position(self, cluster: BlockingCluster, boundary: Boundary) -> Position:
        topics = selected_topics(cluster, self._options)
        offsets = resolve(cluster, self._options, boundary, partitions_of(topics))
        return Position(offsets, {name: topic.topic_id for name, topic in topics.items()})

    def _starts(
        self, cluster: BlockingCluster, begun: Position, ended: Position
    ) -> dict[TopicPartition, int]:
        """Partitions that were added while the query ran, and topics made anew, are read from
        their beginning."""
        starts, added = {}, []
        for where in ended.offsets:
            if begun.is_in(where, ended.topic_ids.get(where.topic)):
                starts[where] = begun.offsets[where]
            else:
                added.append(where)
        return {**starts, **resolve(cluster, self._options, Everywhere(EARLIEST), added)}

    def _check_loss(self, begun: Position, latest: Position) -> None:
        if not self._options.fail_on_data_loss:
            return
        for where, offset in begun.offsets.items():
            problem = None
            if where not in latest.offsets:
                problem = f"{where} was read up to offset {offset} and is not there any more"
            elif not begun.is_in(where, latest.topic_ids[where.topic]):
                problem = f"topic {where.topic} was deleted and made anew"
            elif latest.offsets[where] < offset:
                end = latest.offsets[where]
                problem = f"{where} was read up to offset {offset} and ends at {end} now"
            if problem is not None:
                raise DataLoss(ErrorCode.OFFSET_OUT_OF_RANGE, f"{problem}; {_GO_ON}")


def read_range(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """In a task. What is lost is an error that names the option to go on without it, or is left
    out where that option was set."""
    is_loss_allowed = not options.fail_on_data_loss
    with options.connection.cluster() as cluster:
        fetcher = Fetcher(
            cluster,
            wanted.topic_partition,
            wanted.topic_id,
            wanted.start,
            wanted.end,
            isolation_level=options.isolation_level,
            columns=options.columns,
            max_bytes=options.fetch_bytes,
            is_loss_allowed=is_loss_allowed,
        )
        try:
            yield from fetcher
        except (KafkaError, GaveUp) as error:
            is_loss = isinstance(error, DataLoss) or error.code in _TOPIC_IS_GONE
            if not is_loss:
                raise
            if not is_loss_allowed:
                raise DataLoss(
                    error.code or ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{error}; {_GO_ON}",
                ) from error
