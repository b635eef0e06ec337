"""A mirror that runs: where it goes on, how it writes a batch, and what it sees to besides."""

from __future__ import annotations

import json
import logging
import threading
import time
import weakref
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ottla.client.blocking_cluster import EARLIEST, LATEST, BlockingCluster, Topic
from ottla.client.blocking_groups import CommittedOffset, committed_offsets
from ottla.client.blocking_topics import describe_cluster
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.pipeline.jobs.mirror_groups import Clusters, MirroredGroups, ledger_group
from ottla.pipeline.jobs.mirror_offsets import PartitionLog, last_copied
from ottla.pipeline.jobs.mirror_topics import MirroredTopics
from ottla.pipeline.sink.checkpoint import Checkpoint
from ottla.pipeline.sink.ledger import LedgerError, check_starts, is_written
from ottla.pipeline.sink.transaction import LedgerEntry, Transaction, ledger_topic_id
from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.source.given_options import Connection, OptionError
from ottla.pipeline.source.offsets import partitions_of, resolve, selected_topics
from ottla.pipeline.source.read_options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipeline.jobs.job import Batch, Settings
    from ottla.pipeline.jobs.mirror import MirrorOptions

_log = logging.getLogger(__name__)

_TRANSACTION_MS = 300_000
"""How long a batch may take. Below the 15 minutes that brokers allow by default: a mirror that has
died keeps readers of committed records waiting so long, unless it is started again."""
_PATIENCE_S = 5.0


class MirrorRun:
    """Made by a Mirror when it starts, on the driver. The runner calls it from its own thread and
    from the one that writes batches; one of them at a time gets in. A crash leaves what is in the
    target: whole batches, with how far they have read."""

    def __init__(self, settings: Settings, options: MirrorOptions) -> None:
        self._options = options
        self._read = ReadOptions.parse(_read_options(settings), is_stream=True)
        for option, value in (
            ("minPartitions", self._read.min_partitions),
            ("maxRecordsPerPartition", self._read.max_records_per_partition),
        ):
            if value is not None:
                raise OptionError(option, "mixes up the order of a partition", "remove it")
        source = self._opened(self._read.connection)
        source_id = describe_cluster(source).cluster_id
        self._group = ledger_group(source_id, options.name)
        self._write_options = _write_options(options, self._group)
        target = self._opened(WriteOptions.parse(self._write_options).connection)
        target_id = describe_cluster(target).cluster_id
        if source_id == target_id:
            raise OptionError("target", "it is the cluster that is read from", "name another")
        self._clusters = Clusters(source, target, source_id, target_id)
        self._topics = MirroredTopics(source, target, options.config_exclude)
        shown_prefix = settings.group_prefix or f"mirror.{options.name}"
        self._groups = MirroredGroups(self._clusters, options.groups, shown_prefix)
        self._checkpoint = Checkpoint(str(settings.folder / "checkpoints" / options.name))
        self._lock = threading.Lock()
        self._begun: dict[TopicPartition, int] = {}
        """Where the query starts that has no checkpoint."""
        self._made: dict[str, int] = {}
        """Topics that the target has, with how many partitions."""
        self._next_sync_s = 0.0

    def _opened(self, connection: Connection) -> BlockingCluster:
        """Closed with this run: nobody says when it is over, if it was stopped or has failed."""
        cluster = connection.cluster()
        weakref.finalize(self, cluster.close)
        return cluster

    @property
    def source_id(self) -> str:
        return self._clusters.source_id

    @property
    def target_id(self) -> str:
        return self._clusters.target_id

    # -- where it goes on -----------------------------------------------------------------------

    def starting_offsets(self) -> str:
        """Fences another run of this mirror, should there be one, and ends its transaction: what
        the target says is final only then."""
        with self._lock:
            self._check_checkpoint()
            Transaction(self._clusters.target, self._group, timeout_ms=_TRANSACTION_MS).init()
            topics = selected_topics(self._clusters.source, self._read)
            self._begun = self._positions(topics)
        found: dict[str, dict[str, int]] = {}
        for where, offset in self._begun.items():
            found.setdefault(where.topic, {})[str(where.partition)] = offset
        return json.dumps(found)

    def _check_checkpoint(self) -> None:
        """That the batch which Spark would go on with is the next one, or the last. It would be
        found out when that is written, too: but by then the run that is ahead has been fenced."""
        last = self._checkpoint.last_planned()
        if last is None:
            return
        starts, ends = self._checkpoint.starts(last).offsets, self._checkpoint.offsets(last).offsets
        committed = committed_offsets(self._clusters.target, self._group, ends, is_stable=False)
        begun = {where: starts[where] for where in committed if where in starts}
        if any(committed[where].offset != ends[where] for where in begun):
            check_starts(committed, begun)

    def _positions(self, topics: Mapping[str, Topic]) -> dict[TopicPartition, int]:
        """Of each partition of these: where its copy ends, or where the settings say."""
        partitions = partitions_of(topics)
        committed = committed_offsets(self._clusters.target, self._group, partitions)
        _check_ids(committed, {name: topic.topic_id for name, topic in topics.items()})
        found = {where: offset.offset for where, offset in committed.items()}
        missing = [where for where in partitions if where not in found]
        found |= self._copied(missing)
        missing = [where for where in partitions if where not in found]
        found |= self._configured(missing)
        ends = self._clusters.source.list_offsets(dict.fromkeys(partitions, LATEST))
        for where, position in found.items():
            if ends[where].offset < position:
                raise LedgerError(
                    f"{where} was mirrored up to offset {position} and ends at "
                    f"{ends[where].offset} in the source now: it has lost records. {_BEGIN_ANEW}"
                )
        return {where: found[where] for where in partitions}

    def _copied(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """By the records themselves, where the offsets of the group have expired, or a mirror goes
        on under another name."""
        target = self._clusters.target
        topics = target.topics({where.topic for where in partitions})
        there = [
            where
            for where in partitions
            if where.topic in topics and where.partition in topics[where.topic].partitions
        ]
        if not there:
            return {}
        starts, ends = (
            target.list_offsets(dict.fromkeys(there, which)) for which in (EARLIEST, LATEST)
        )
        found: dict[TopicPartition, int] = {}
        for where in there:
            topic_id = topics[where.topic].topic_id
            bounds = starts[where].offset, ends[where].offset
            last = last_copied(PartitionLog(target, where, topic_id, *bounds), self.source_id)
            if last is not None:
                found[where] = last + 1
                _log.info("%s goes on at %d, by the last record in the target", where, last + 1)
        return found

    def _configured(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return resolve(self._clusters.source, self._read, self._read.start, list(partitions))

    # -- a batch --------------------------------------------------------------------------------

    def write(self, frame: DataFrame, batch: Batch) -> None:
        # A partition that was added while the query ran is read from its beginning, always: where
        # this run would have begun is no matter.
        begun = {} if batch.batch_id else self._begun
        starts = {where: batch.starts.get(where, begun.get(where, 0)) for where in batch.ends}
        for where, end in batch.ends.items():
            # Of the first batch of a checkpoint, planned before another run went on.
            if where not in batch.starts and end < starts[where]:
                raise LedgerError(
                    f"the batch reads {where} up to {end}, but the target has it up to "
                    f"{starts[where]}: another copy has gone on; delete the checkpoint to go on "
                    "from there"
                )
        with self._lock:
            self._make(batch.ends)
            entry = LedgerEntry(batch.query_id, batch.batch_id)
            committed = committed_offsets(self._clusters.target, self._group, batch.ends)
            if not is_written(committed, entry, batch.ends):
                from ottla.pipeline.sink.sink import write_batch

                # Before the transaction begins, too: that would fence whoever is ahead of us.
                check_starts(committed, starts)
                _check_ids(committed, batch.topic_ids)
                write_batch(
                    frame,
                    self._write_options,
                    query_id=batch.query_id,
                    batch_id=batch.batch_id,
                    offsets=batch.ends,
                    starts=starts,
                    topic_ids=batch.topic_ids,
                    # One task reads a partition and writes it: the order stays, without a shuffle.
                    is_placed=True,
                )
            self._sync_if_due()

    def _make(self, partitions: Collection[TopicPartition]) -> None:
        """So that these are there to be written to."""
        wanted = {
            where.topic for where in partitions if where.partition >= self._made.get(where.topic, 0)
        }
        if wanted:
            self._sync_topics(self._clusters.source.topics(wanted))

    # -- besides ----------------------------------------------------------------------------------

    def upkeep(self, is_last: bool) -> None:
        if self._lock.acquire(blocking=is_last):
            try:
                self._sync_if_due(is_last=is_last)
            finally:
                self._lock.release()

    def _sync_if_due(self, *, is_last: bool = False) -> None:
        if not is_last and time.monotonic() < self._next_sync_s:
            return
        topics = selected_topics(self._clusters.source, self._read, is_missing_allowed=True)
        self._sync_topics(topics)
        committed = self._ledger(topics)
        positions = {where: offset.offset for where, offset in committed.items()}
        self._groups.copy(positions, patience_s=_PATIENCE_S if is_last else 0)
        self._next_sync_s = time.monotonic() + self._options.sync_s

    def _sync_topics(self, topics: Mapping[str, Topic]) -> None:
        begun = {where.topic for where in self._ledger(topics)}
        self._topics.make(topics, begun | self._made.keys())
        self._topics.copy_configs(topics)
        self._made.update((name, len(topic.partitions)) for name, topic in topics.items())

    def _ledger(self, topics: Mapping[str, Topic]) -> dict[TopicPartition, CommittedOffset]:
        partitions = partitions_of(topics)
        if not partitions:
            return {}
        # Not waiting for a transaction: it may be of a run that is no more.
        return committed_offsets(self._clusters.target, self._group, partitions, is_stable=False)


_BEGIN_ANEW = (
    "To mirror it from its beginning, delete it in the target too, and the checkpoint of the mirror"
)


def _check_ids(
    committed: Mapping[TopicPartition, CommittedOffset], topic_ids: Mapping[str, TopicId]
) -> None:
    """Offsets of another topic of the same name say nothing."""
    for where, offset in committed.items():
        before = ledger_topic_id(offset.metadata)
        if before is not None and before != topic_ids[where.topic]:
            raise LedgerError(
                f"topic {where.topic} was deleted in the source and made anew. {_BEGIN_ANEW}"
            )


def _read_options(settings: Settings) -> dict[str, str]:
    """As the runner has them for the query."""
    found = {**settings.source, "kafka.bootstrap.servers": settings.bootstrap}
    if settings.topic_pattern is not None:
        found["subscribePattern"] = settings.topic_pattern
    else:
        found["subscribe"] = ",".join(settings.topics)
    if settings.starting.isdecimal():
        found["startingTimestamp"] = settings.starting
        found["startingOffsetsByTimestampStrategy"] = "latest"
    else:
        found["startingOffsets"] = settings.starting
    return found


def _write_options(options: MirrorOptions, group: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": options.target,
        "kafka.client.id": "ottla-mirror",
        "kafka.compression.type": options.compression,
        "kafka.transactional.id": group,
        "kafka.group.id": group,
        "kafka.transaction.timeout.ms": str(_TRANSACTION_MS),
        "includeTimestamp": "true",
    }
