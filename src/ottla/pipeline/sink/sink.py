"""Writing to topics from Spark: the writers of the data source `ottla`, and `write_batch`.
This module needs Spark.

Plain writes are idempotent, and at least once: Spark may run a task or a batch again. With option
kafka.transactional.id a micro-batch is one transaction over all its tasks, and is written exactly
once: see `batch_transaction`.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from ottla.kernel.ids import ProducerIdAndEpoch, TopicId, TopicPartition
from ottla.pipeline.kept_imports import keep_imports
from ottla.pipeline.sink.batch_transaction import BatchFailed, BatchTransaction
from ottla.pipeline.sink.checkpoint import Checkpoint
from ottla.pipeline.sink.placement import placed
from ottla.pipeline.sink.row_writer import Written, write_rows
from ottla.pipeline.sink.transaction import LedgerEntry
from ottla.pipeline.sink.turn import first_turn
from ottla.pipeline.sink.write_options import CHECKPOINT, WriteOptions
from ottla.pipeline.sink.write_schema import check_schema
from ottla.pipeline.source.given_options import OptionError
from ottla.pipeline.unwritten import evaluate


def write_batch(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    query_id: str,
    batch_id: int,
    offsets: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int] | None = None,
    topic_ids: Mapping[str, TopicId] | None = None,
    is_placed: bool = False,
) -> bool:
    """The rows of one micro-batch, exactly once; for `foreachBatch`. False where the ledger has the
    batch already: nothing was written then.

    `options` are those of a write, with kafka.transactional.id. `query_id` and `offsets`, where the
    batch ends in its input, are in the query's checkpoint: see `Checkpoint`. With `starts`, where
    it begins, the batch is refused (LedgerError) unless that is where the output ends: then no
    other query, with whatever checkpoint, can have gone on in between. `topic_ids`, of the input,
    are kept with its offsets. `is_placed` says that rows of one output partition are in one task
    already, with column `partition` filled."""
    parsed = WriteOptions.parse(options)
    batch = LedgerEntry(query_id, batch_id)
    check_schema(frame.schema, parsed)
    with parsed.connection.cluster() as cluster:
        transaction = BatchTransaction.begin(cluster, parsed)
        if transaction.is_written(cluster, batch, offsets, starts):
            evaluate(frame)
            return False
        task = _Task(parsed, transaction.producer)
        rows = frame if is_placed else placed(frame, options)
        try:
            found = rows.mapInArrow(task.run, "stage int, written binary").collect()
            check_stages(frame.sparkSession, {row.stage for row in found})
        except Exception as error:
            transaction.abort(error)
            raise
        written = [pickle.loads(row.written) for row in found]
        transaction.commit(written, batch, offsets, topic_ids)
    return True


def check_stages(session: SparkSession, stages: Collection[int]) -> None:
    """That none was run again. Where an executor is lost Spark computes again what its tasks had to
    be given; it may come out in another order, and rows that one task has written would go to
    another, or to none. Each task of the new attempt looks like a first one."""
    if is_remote():
        return  # There is nobody to ask; `SoleWriter` still finds a task that had written before.
    tracker = session.sparkContext.statusTracker()
    for stage in stages:
        info = tracker.getStageInfo(stage)
        if info is not None and info.currentAttemptId > 0:
            raise BatchFailed(
                "Spark ran some tasks of the batch again, with rows that may be others; "
                "start the query again, which writes the whole batch"
            )


@dataclass(frozen=True, slots=True)
class _Task:
    """What is sent to the tasks."""

    options: WriteOptions
    producer: ProducerIdAndEpoch | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = self.write(batches)
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        yield pa.record_batch(
            [pa.array([context.stageId()], pa.int32()), pa.array([pickle.dumps(written)])],
            names=["stage", "written"],
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        if self.producer is not None and context.attemptNumber() > 0:
            raise BatchFailed(
                f"task {context.partitionId()} was run again. What its first attempt wrote cannot "
                "be told from what this one would, so the whole batch must be: start the query "
                "again. Look above for why the first attempt failed; spark.speculation must be off"
            )
        written = write_rows(
            batches,
            self.options,
            task=context.partitionId(),
            first_turn=first_turn(),
            producer=self.producer,
        )
        keep_imports()
        return written


@dataclass(slots=True)
class Message(WriterCommitMessage):
    written: Written


class BatchWriter(DataSourceArrowWriter):
    """Of `frame.write`. Made on the driver for one write, and pickled to the tasks and to the
    process that commits. With a transactional id the write is there as a whole, or not at all; a
    program that runs twice still writes twice."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._producer: ProducerIdAndEpoch | None = None
        if options.transactional_id is not None:
            with options.connection.cluster() as cluster:
                self._producer = BatchTransaction.begin(cluster, options).producer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Message(_Task(self._options, self._producer).write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._producer is not None:
            with self._options.connection.cluster() as cluster:
                transaction = BatchTransaction.of(cluster, self._options, self._producer)
                transaction.commit(_written(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._producer is not None:
            _abort(self._options, self._producer)


class StreamWriter(DataSourceStreamArrowWriter):
    """Of `frame.writeStream`. Spark makes one for each micro-batch, which it pickles to the tasks,
    and another in the process that commits: that one learns the producer from the tasks."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._producer: ProducerIdAndEpoch | None = None
        self._checkpoint: Checkpoint | None = None
        if options.transactional_id is not None and options.checkpoint is None:
            raise OptionError(
                CHECKPOINT,
                "is missing",
                "set it on the query: exactly once needs the offsets that are in it",
            )

    def __getstate__(self) -> dict[str, Any]:
        # It is on its way to the tasks: the batch begins. The writer that commits goes nowhere, and
        # must not begin: that would abort what it is to commit.
        if self._options.transactional_id is not None and self._producer is None:
            with self._options.connection.cluster() as cluster:
                self._producer = BatchTransaction.begin(cluster, self._options).producer
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Message(_Task(self._options, self._producer).write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if self._options.transactional_id is None:
            return
        assert self._options.checkpoint is not None, "checked when the writer was made"
        checkpoint = Checkpoint(self._options.checkpoint)
        written = _written(messages)
        producer = next(one.producer for one in written if one is not None)
        assert producer is not None, "tasks wrote in the transaction"
        with self._options.connection.cluster() as cluster:
            transaction = BatchTransaction.of(cluster, self._options, producer)
            try:
                batch = LedgerEntry(checkpoint.query_id(), batchId)
                ends = checkpoint.offsets(batchId).offsets
                is_written = transaction.is_written(cluster, batch, ends)
            except Exception as error:
                transaction.abort(error)
                raise
            if is_written:
                transaction.abort(BatchFailed("it was written before"))
            else:
                transaction.commit(written, batch, ends)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """A task that failed has aborted the transaction; one that was cancelled could not."""
        for one in _written(messages):
            if one is not None and one.producer is not None:
                _abort(self._options, one.producer)
                break


def write_options(
    options: Mapping[str, str], schema: StructType, is_overwrite: bool
) -> WriteOptions:
    """Of a write of such rows. Raises OptionError and ColumnError."""
    if is_overwrite:
        raise OptionError("mode", "a topic cannot be overwritten", "set it to append")
    parsed = WriteOptions.parse(options)
    check_schema(schema, parsed)
    return parsed


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written | None]:
    return [one.written if isinstance(one, Message) else None for one in messages]


def _abort(options: WriteOptions, producer: ProducerIdAndEpoch) -> None:
    """Spark has the error already for which the write is given up."""
    with options.connection.cluster() as cluster:
        BatchTransaction.of(cluster, options, producer).abort(BatchFailed("it was given up"))
