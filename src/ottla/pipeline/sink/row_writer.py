"""The rows of one task to the partitions of topics: what both kinds of writers do in a task.

Rows come as Spark's Arrow batches, some thousand at a time. They are gathered until there is enough
for large batches to several partitions, then sorted by partition, each partition's in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.clock import Clock, SystemClock
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.pipeline.rows.appender import Appended, Appender
from ottla.pipeline.rows.columns import fixed
from ottla.pipeline.rows.varints import Ints
from ottla.pipeline.sink.partition_choice import PartitionChoice, distinct_topics, partition_count
from ottla.pipeline.sink.sole_writer import SoleWriter
from ottla.pipeline.sink.transaction import Transaction
from ottla.pipeline.sink.write_options import WriteOptions

GATHERED_BYTES = 8_000_000


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
    producer: ProducerIdAndEpoch | None = None,
) -> Written:
    """All of a task, durably when it returns. With a producer it is a part of that one's
    transaction, which is given up at once if this fails: readers need not wait for its time-out."""
    with options.connection.cluster() as cluster:
        if producer is None:
            return _RowWriter(cluster, options, task, None).write(batches)
        assert options.transactional_id is not None, "a producer is that of a transactional id"
        transaction = Transaction.of(cluster, options.transactional_id, producer)
        try:
            return _RowWriter(cluster, options, task, transaction).write(batches)
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
        choice = PartitionChoice(partial(partition_count, self.cluster), task=self.task)
        row_count = 0
        for rows in gathered(batches):
            row_count += rows.num_rows
            for where, part in self._by_partition(rows, choice):
                if sole is not None:
                    sole.check(where)
                key, headers = _column(part, "key"), _column(part, "headers")
                times = self._timestamps_ms(part)
                appender.append(*where, key, part["value"], headers, times)
        partitions = appender.flush()
        producer = None if self.transaction is None else self.transaction.producer
        return Written(self.task, row_count, partitions, producer)

    def _by_partition(
        self, rows: pa.Table, choice: PartitionChoice
    ) -> Iterator[tuple[TopicPartition, pa.Table]]:
        for topic, of_topic in self._by_topic(rows):
            key, named = _column(of_topic, "key"), _column(of_topic, "partition")
            partitions = choice.of_topic(topic, key, named, of_topic.num_rows)
            first = int(partitions[0])
            if (partitions == first).all():
                yield TopicPartition(topic, first), of_topic
                continue
            order = np.argsort(partitions, kind="stable")
            of_topic = of_topic.take(fixed(order))
            for start, stop, partition in _runs(partitions[order]):
                yield TopicPartition(topic, partition), of_topic.slice(start, stop - start)

    def _by_topic(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if self.options.topic is not None:
            yield self.options.topic, rows
            return
        topics = rows["topic"]
        for topic in distinct_topics(topics):
            yield topic, rows.filter(pc.equal(topics, topic))

    def _timestamps_ms(self, rows: pa.Table) -> Ints | None:
        if not self.options.has_timestamps:
            return None
        times = rows["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        found: Ints = pc.fill_null(times, self.clock.now_ms()).to_numpy()
        return found


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


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray | None:
    return rows[name] if name in rows.column_names else None


def _runs(numbers: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    """Start, stop and number of each run of the same."""
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(starts):
        yield start, stop, int(numbers[start])
