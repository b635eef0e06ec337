"""Which batches of a query are in its output: read from the offsets that their transactions
committed, before a batch is written."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.blocking_groups import CommittedOffset
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.pipeline.sink.transaction import LedgerEntry


class LedgerError(Exception):
    """Somebody else has written what this query is about to write. Going on would write it twice,
    or leave some of it out."""


def is_written(
    committed: Mapping[TopicPartition, CommittedOffset],
    batch: LedgerEntry,
    ends: Mapping[TopicPartition, int],
) -> bool:
    """Whether this batch, which reads up to `ends`, has been committed. `committed` is what the
    group has for the partitions of `ends`, asked for after the transaction was begun."""
    found = False
    for where, offset in committed.items():
        entry = LedgerEntry.parse(offset.metadata)
        if entry is None or entry.query_id != batch.query_id or entry.batch_id < batch.batch_id:
            continue
        if entry != batch or offset.offset != ends[where]:
            raise LedgerError(
                f"batch {batch.batch_id} of query {batch.query_id} reads {where} up to "
                f"{ends[where]}, but its output has batch {entry.batch_id}, up to "
                f"{offset.offset}: the checkpoint is older than the output, or a copy of it is in "
                "use; start with a new checkpoint at the committed offsets of the group"
            )
        found = True
    return found


def check_starts(
    committed: Mapping[TopicPartition, CommittedOffset], starts: Mapping[TopicPartition, int]
) -> None:
    """That the batch begins where the output ends. For output that nobody else may go on with, by
    any other query: a mirror, say, of which a second copy was started."""
    for where, start in starts.items():
        if where in committed and committed[where].offset != start:
            raise LedgerError(
                f"the batch reads {where} from {start}, but the output has it up to "
                f"{committed[where].offset}: another copy has gone on; stop one of them, and start "
                "the other from the committed offsets of the group"
            )


def marked(
    ends: Mapping[TopicPartition, int],
    batch: LedgerEntry,
    topic_ids: Mapping[str, TopicId] | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """What to commit in the transaction of the batch; with the ids of the topics that were read,
    where whoever goes on without a checkpoint has to know them."""
    ids = topic_ids or {}
    return {
        where: CommittedOffset(offset, batch.text(ids.get(where.topic)))
        for where, offset in ends.items()
    }
