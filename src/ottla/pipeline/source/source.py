"""The data source `ottla` of Spark: `spark.read` and `spark.readStream` with `format("ottla")`.
This module needs Spark.

Rows are those of Spark's own Kafka connector. The driver decides which offsets are read; each task
then reads one range of one partition, from its leader.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence, Set
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

from ottla.client.blocking import ClientError, Deadline, GaveUp
from ottla.client.blocking_cluster import EARLIEST, BlockingCluster
from ottla.client.blocking_groups import CommittedOffset, commit_offsets
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.kept_imports import keep_imports
from ottla.pipeline.rows.fetcher import DataLoss, Fetcher
from ottla.pipeline.sink.sink import BatchWriter, StreamWriter, write_options
from ottla.pipeline.source.given_options import OptionError
from ottla.pipeline.source.offsets import (
    OffsetRange,
    Position,
    backlog,
    check_named,
    grouped,
    limited,
    partitions_of,
    resolve,
    resolve_ranges,
    selected_topics,
    split,
)
from ottla.pipeline.source.read_options import Boundary, Everywhere, ReadOptions, parse_columns

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

_LOGGER = logging.getLogger(__name__)
_COMMIT_TIMEOUT_S = 5.0
"""The next batch waits meanwhile."""

_ABSENT_S = 10.0
_ABSENT_PAUSE_S = 0.25
"""So long a broker that has just started may not know a topic yet."""

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

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(write_options(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(write_options(self.options, schema, overwrite))

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
        return _input_partitions(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there are no partitions Spark makes one up, whose value is None.
        return iter(()) if partition.value is None else read_ranges(self._options, partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One on the driver for as long as the query runs, in a process of its own, and copies of it
    in the tasks. What a crash leaves is in the checkpoint: each batch is planned there, by its
    two positions, before it is read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._options = ReadOptions.parse(options, is_stream=True)
        self._cluster = self._options.connection.cluster()
        self._target: Position | None = None
        """Where a query that reads what is available now has to end."""
        self._initial: dict[str, Any] | None = None
        self._latest: Position | None = None
        self._triggered_s: float | None = None
        """When something was last found to be read."""
        self._committed: Mapping[TopicPartition, int] = {}
        self._commit_problem: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A task needs what to read and how, not the driver's connections.
        return StreamReader, (self._given,)

    def initialOffset(self) -> dict[str, Any]:
        initial = self._position(self._options.start, is_missing_allowed=False)
        if self._target is not None:
            # That was asked for before, and at the latest offsets more may have come since.
            offsets = dict(self._target.offsets)
            for where, offset in initial.offsets.items():
                offsets[where] = max(offset, offsets.get(where, offset))
            self._target = Position(offsets, {**self._target.topic_ids, **initial.topic_ids})
        self._initial = initial.to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._position(self._options.end, is_missing_allowed=True)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = Position.from_json(start)
        self._tell_group(begun)
        latest = self._latest = self._latest_of({where.topic for where in begun.offsets})
        if self._options.fail_on_data_loss:
            check_named(self._cluster, self._options, {*begun.offsets, *latest.offsets})
            _check_loss(begun, latest)
        starts = self._starts(begun, latest)
        ends = latest.offsets
        if self._is_too_little(starts, ends):
            return begun.to_json()
        self._triggered_s = time.monotonic()
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        if start == self._initial:
            return Position(ends, latest.topic_ids, begun.offsets).to_json()
        if (ends, latest.topic_ids) == (begun.offsets, begun.topic_ids):
            return start  # To the letter: else Spark takes it for news.
        return Position(ends, latest.topic_ids).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """As it was heard for the batch that is being planned: Spark asks for it right after."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begun, ended = Position.from_json(start), Position.from_json(end)
        if ended.begun is not None and start != end:
            begun = Position(ended.begun, ended.topic_ids)
        starts = self._starts(begun, ended)
        ranges = [
            OffsetRange(
                where.topic, ended.topic_ids[where.topic], where.partition, starts[where], offset
            )
            for where, offset in ended.offsets.items()
        ]
        return _input_partitions(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self._options, partition.value)

    def stop(self) -> None:
        self._cluster.close()

    def _tell_group(self, begun: Position) -> None:
        """How far the query is, for whoever looks at its lag: the batch before this one has ended
        where this one begins. (Spark calls `commit` one batch late: that of the last rows would
        wait for more of them.) The checkpoint is what counts: a group that cannot be told is no
        reason to stop."""
        group_id = self._options.group_id
        if group_id is None:
            return
        news = {
            where: CommittedOffset(offset)
            for where, offset in begun.offsets.items()
            if self._committed.get(where) != offset
        }
        problem = None
        try:
            commit_offsets(self._cluster, group_id, news, timeout_s=_COMMIT_TIMEOUT_S)
            self._committed = begun.offsets
        except (ClientError, KafkaError) as error:
            problem = str(error)
        if problem is not None and problem != self._commit_problem:
            _LOGGER.warning("the lag of group %s is not up to date: %s", group_id, problem)
        self._commit_problem = problem

    def _latest_of(self, topics: Set[str]) -> Position:
        """With these among them, unless they are gone: one that a broker only does not know yet
        would come back as a new one, and be read a second time."""
        latest = self._target or self._position(self._options.end, is_missing_allowed=True)
        deadline = Deadline(_ABSENT_S)
        while topics - latest.topic_ids.keys() and deadline.pause(_ABSENT_PAUSE_S):
            latest = self._position(self._options.end, is_missing_allowed=True)
        if self._target is not None:
            self._target = latest
        return latest

    def _position(self, boundary: Boundary, *, is_missing_allowed: bool) -> Position:
        try:
            return self._position_now(boundary, is_missing_allowed)
        except GaveUp as error:
            if error.code not in _TOPIC_IS_GONE:
                raise
            # It went while it was asked about, which can be seen now.
            return self._position_now(boundary, is_missing_allowed)

    def _position_now(self, boundary: Boundary, is_missing_allowed: bool) -> Position:
        topics = selected_topics(
            self._cluster, self._options, is_missing_allowed=is_missing_allowed
        )
        offsets = resolve(self._cluster, self._options, boundary, partitions_of(topics))
        return Position(offsets, {name: topic.topic_id for name, topic in topics.items()})

    def _starts(self, begun: Position, ended: Position) -> dict[TopicPartition, int]:
        """Partitions that were added while the query ran, and topics made anew, are read from
        their beginning; one that retention has taken records from is a loss, as with Spark's
        connector."""
        starts, added = {}, []
        for where in ended.offsets:
            if begun.is_in(where, ended.topic_ids.get(where.topic)):
                starts[where] = begun.offsets[where]
            else:
                added.append(where)
        found = resolve(self._cluster, self._options, Everywhere(EARLIEST), added)
        for where, offset in found.items():
            if offset > 0 and self._options.fail_on_data_loss:
                problem = f"{where} was added, and its log starts at offset {offset} by now"
                raise DataLoss(ErrorCode.OFFSET_OUT_OF_RANGE, f"{problem}; {_GO_ON}")
        return {**starts, **found}

    def _is_too_little(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or self._triggered_s is None:
            return False
        is_over = time.monotonic() - self._triggered_s >= self._options.max_trigger_delay_s
        return not is_over and sum(backlog(starts, ends).values()) < least


def _check_loss(begun: Position, latest: Position) -> None:
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


def _input_partitions(ranges: list[OffsetRange], options: ReadOptions) -> list[InputPartition]:
    pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
    is_told = options.min_partitions is not None or options.max_records_per_partition is not None
    # Who says into how many pieces it is to be cut has as many.
    tasks = [(one,) for one in pieces] if is_told else grouped(pieces)
    return [InputPartition(one) for one in tasks]


def read_ranges(options: ReadOptions, wanted: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """In a task."""
    with options.connection.cluster() as cluster:
        for one in wanted:
            yield from _read_range(cluster, options, one)
    keep_imports()


def _read_range(
    cluster: BlockingCluster, options: ReadOptions, wanted: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """What is lost is an error that names the option to go on without it, or is left out where
    that option was set."""
    is_loss_allowed = not options.fail_on_data_loss
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
        rack_id=options.rack_id,
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
