"""The rows of one task to the partitions of topics: what both kinds of writers do in a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.clock import Clock, SystemClock
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.pipeline.rows.appender import Appended, Appender
from ottla.pipeline.rows.varints import Ints
from ottla.pipeline.sink.packing import is_packed, unpacked
from ottla.pipeline.sink.partition_choice import PartitionChoice, RowError, partition_count
from ottla.pipeline.sink.parts import Part, column, parts_of
from ottla.pipeline.sink.sole_writer import SoleWriter
from ottla.pipeline.sink.transaction import Transaction
from ottla.pipeline.sink.write_options import WriteOptions


@dataclass(frozen=True, slots=True)
class Written:
    """What a task has written. Travels to the driver."""

    task: int
    row_count: int
    partitions: dict[TopicPartition, Appended]
    producer: ProducerIdAndEpoch | None = None
    """Of the transaction, where there is one."""


def write_rows(
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions,
    *,
    task: int,
    first_turn: int = 0,
    producer: ProducerIdAndEpoch | None = None,
) -> Written:
    """All of a task, durably when it returns. With a producer it is a part of that one's
    transaction, which is given up at once if this fails: readers need not wait for its time-out."""
    with options.connection.cluster() as cluster:
        if producer is None:
            return _RowWriter(cluster, options, task, first_turn, None).write(batches)
        assert options.transactional_id is not None, "a producer is that of a transactional id"
        transaction = Transaction.of(cluster, options.transactional_id, producer)
        try:
            return _RowWriter(cluster, options, task, first_turn, transaction).write(batches)
        except Exception as error:
            give_up(transaction, error)
            raise


def give_up(transaction: Transaction, reason: Exception) -> None:
    """Aborts. Where that fails too nothing is lost: the transaction never commits, and is aborted
    by the next one or by its time-out."""
    try:
        transaction.abort()
    except Exception as error:
        reason.add_note(f"aborting the transaction failed: {error}")


@dataclass(slots=True)
class _RowWriter:
    """In a task, for as long as it runs."""

    cluster: BlockingCluster
    options: WriteOptions
    task: int
    first_turn: int
    transaction: Transaction | None
    clock: Clock = field(default_factory=SystemClock)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        appender = Appender(
            self.cluster,
            transaction=self.transaction,
            compression=self.options.compression,
            batch_bytes=self.options.batch_bytes,
            timeout_ms=int(self.options.connection.request_timeout_s * 1000),
            clock=self.clock,
        )
        sole = None if self.transaction is None else SoleWriter(self.cluster, self.transaction)
        row_count = 0
        for where, rows in self._parts(batches):
            if sole is not None:
                sole.check(where)
            row_count += rows.num_rows
            key, headers = column(rows, "key"), column(rows, "headers")
            appender.append(*where, key, rows["value"], headers, self._timestamps_ms(rows))
        partitions = appender.flush()
        producer = None if self.transaction is None else self.transaction.producer
        return Written(self.task, row_count, partitions, producer)

    def _parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return iter(())
        batches = chain([first], batches)
        if is_packed(first.schema.names):
            return map(self._checked, unpacked(batches))
        choice = PartitionChoice(partial(partition_count, self.cluster), first=self.first_turn)
        return chain.from_iterable(parts_of(batches, self.options.topic, choice))

    def _checked(self, part: Part) -> Part:
        where, rows = part
        is_of_topic = self.options.topic in (None, where.topic)
        if not is_of_topic or ("timestamp" in rows.column_names) != self.options.has_timestamps:
            raise RowError(
                "rows were placed with other options than they are written with; give `placed` "
                "and the write the same topic and includeTimestamp"
            )
        return part

    def _timestamps_ms(self, rows: pa.Table) -> Ints | None:
        if not self.options.has_timestamps:
            return None
        times = rows["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        found: Ints = pc.fill_null(times, self.clock.now_ms()).to_numpy()
        return found
