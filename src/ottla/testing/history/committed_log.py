"""The log of a partition as all its replicas should have it, and how each record in it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.testing.history.events import Outcome
from ottla.testing.history.replica_log import LoggedBatch, ReplicaLog


class CommittedRecord(NamedTuple):
    value: str
    outcome: Outcome
    """UNKNOWN where the transaction has no marker."""
    producer: ProducerIdAndEpoch


class CommittedLog:
    """One replica's, in the place of all: whether they are equal is another question."""

    def __init__(self, replica: ReplicaLog) -> None:
        self.start_offset = replica.start_offset
        self.end_offset = replica.end_offset
        self.batches = replica.batches
        self.records = dict(_ended(replica.batches))
        """By offset, in the order of offsets."""


def committed_logs(replicas: Iterable[ReplicaLog]) -> dict[TopicPartition, CommittedLog]:
    """Of each partition the longest: one that lacks something differs from it."""
    longest: dict[TopicPartition, ReplicaLog] = {}
    for replica in replicas:
        known = longest.get(replica.partition)
        if known is None or replica.end_offset > known.end_offset:
            longest[replica.partition] = replica
    return {partition: CommittedLog(replica) for partition, replica in longest.items()}


def _ended(batches: Iterable[LoggedBatch]) -> Iterator[tuple[int, CommittedRecord]]:
    """A marker ends what its producer has written since the marker before, whatever the epoch:
    with transactions of version 2 a marker may have a higher one (KIP-890)."""
    records: dict[int, CommittedRecord] = {}
    is_open: defaultdict[int, list[int]] = defaultdict(list)
    for batch in batches:
        header = batch.header
        if batch.marker is not None:
            for offset in is_open.pop(header.producer_id, []):
                records[offset] = records[offset]._replace(outcome=batch.marker)
            continue
        outcome = Outcome.UNKNOWN if header.is_transactional else Outcome.COMMITTED
        producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        for offset, value in batch.values:
            records[offset] = CommittedRecord(value, outcome, producer)
            if header.is_transactional:
                is_open[header.producer_id].append(offset)
    yield from records.items()
