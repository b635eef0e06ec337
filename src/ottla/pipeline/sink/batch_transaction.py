"""One micro-batch as one transaction: what the driver does around its tasks.

Begin, which fences whoever came before; see in the ledger whether the batch was written already;
let tasks write; compare what they say; commit the input's offsets and the ledger entry in the
transaction, and end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.client.blocking import GaveUp
from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_groups import CommittedOffset, committed_offsets
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicId, TopicPartition
from ottla.pipeline.sink.ledger import check_starts, is_written, marked
from ottla.pipeline.sink.row_writer import Written, give_up
from ottla.pipeline.sink.transaction import PLACE_ROWS, LedgerEntry, Transaction
from ottla.pipeline.sink.write_options import TRANSACTIONAL_ID, WriteOptions
from ottla.pipeline.source.given_options import OptionError


class BatchFailed(Exception):
    """What tasks have written is not what they should have. The transaction was aborted: readers
    see nothing of it."""


class BatchTransaction:
    """Made by the driver for one batch, with `begin`; or with `of`, where another process of the
    driver's has begun it. A crash leaves it open until the next one begins, or its time-out."""

    def __init__(
        self, cluster: BlockingCluster, options: WriteOptions, transaction: Transaction
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._transaction = transaction
        self.producer = transaction.producer

    @classmethod
    def begin(cls, cluster: BlockingCluster, options: WriteOptions) -> BatchTransaction:
        if options.transactional_id is None:
            raise OptionError(TRANSACTIONAL_ID, "is missing", "set it to write exactly once")
        transaction = Transaction(
            cluster, options.transactional_id, timeout_ms=options.transaction_timeout_ms
        )
        transaction.init()
        return cls(cluster, options, transaction)

    @classmethod
    def of(
        cls, cluster: BlockingCluster, options: WriteOptions, producer: ProducerIdAndEpoch
    ) -> BatchTransaction:
        assert options.transactional_id is not None, "a producer is that of a transactional id"
        return cls(cluster, options, Transaction.of(cluster, options.transactional_id, producer))

    def is_written(
        self,
        cluster: BlockingCluster,
        batch: LedgerEntry,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int] | None = None,
    ) -> bool:
        """Whether the ledger has the batch. If not, and there are `starts`, they must be where the
        output ends."""
        assert self._options.group_id is not None, "there is a group with a transactional id"
        partitions = [*ends, *(where for where in starts or {} if where not in ends)]
        # The partitions are named: see `committed_offsets`.
        committed = committed_offsets(cluster, self._options.group_id, partitions)
        of_batch = {where: committed[where] for where in ends if where in committed}
        if is_written(of_batch, batch, ends):
            return True
        check_starts(committed, starts or {})
        return False

    def commit(
        self,
        written: Sequence[Written | None],
        batch: LedgerEntry | None = None,
        ends: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, TopicId] | None = None,
    ) -> None:
        """All or nothing. Without a batch there is no ledger: a write that is no stream's."""
        try:
            check_written(written, self.producer)
            if batch is not None and ends is not None:
                has_rows = any(one.row_count for one in written if one)
                self._commit_offsets(batch, ends, topic_ids, has_rows=has_rows)
        except Exception as error:
            give_up(self._transaction, error)
            raise
        # What nothing was written in has never begun, and cannot be ended: INVALID_TXN_STATE.
        if ends or any(one.partitions for one in written if one):
            self._transaction.commit()

    def abort(self, reason: Exception) -> None:
        give_up(self._transaction, reason)

    def _commit_offsets(
        self,
        batch: LedgerEntry,
        ends: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, TopicId] | None,
        *,
        has_rows: bool,
    ) -> None:
        if has_rows and not ends:
            raise BatchFailed(
                "the input of the query is no topic, so there are no offsets to commit, and "
                f"nothing to tell a replayed batch by; remove option {TRANSACTIONAL_ID}"
            )
        assert self._options.group_id is not None, "there is a group with a transactional id"
        offsets = marked(ends, batch, topic_ids)
        try:
            self._transaction.commit_offsets(self._options.group_id, offsets)
        except GaveUp as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            # A topic was deleted while it was read: its offsets are nobody's, those of the others
            # tell that the batch is there.
            self._transaction.commit_offsets(self._options.group_id, self._of_topics(offsets))

    def _of_topics(
        self, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Of those that there are."""
        names = sorted({where.topic for where in offsets})
        topics = self._cluster.topics(names)
        found = {
            where: offset
            for where, offset in offsets.items()
            if where.topic in topics and where.partition in topics[where.topic].partitions
        }
        if not found:
            raise BatchFailed(
                f"none of {', '.join(names)} is at {self._cluster.bootstrap_servers}, so their "
                f"offsets cannot be committed there; were they deleted? Where they are in another "
                f"cluster remove option {TRANSACTIONAL_ID}"
            )
        return found


def check_written(written: Sequence[Written | None], producer: ProducerIdAndEpoch) -> None:
    """Raises BatchFailed unless each partition was one task's, and every row is accounted for."""
    owner: dict[TopicPartition, int] = {}
    for one in written:
        if one is None:
            raise BatchFailed("a task did not say what it has written")
        if one.producer != producer:
            raise BatchFailed(
                f"task {one.task} wrote as {one.producer}, the transaction is that of {producer}"
            )
        counted = sum(appended.record_count for appended in one.partitions.values())
        if counted != one.row_count:
            raise BatchFailed(f"task {one.task} had {one.row_count} rows, and wrote {counted}")
        for where, appended in one.partitions.items():
            if where in owner:
                raise BatchFailed(
                    f"tasks {owner[where]} and {one.task} both wrote to {where} in one "
                    f"transaction; {PLACE_ROWS}"
                )
            owner[where] = one.task
            span = appended.last_offset - appended.first_offset + 1
            if span < appended.record_count:
                raise BatchFailed(
                    f"task {one.task} wrote {appended.record_count} records to {where}, which has "
                    f"offsets for {span} of them; {PLACE_ROWS}"
                )
