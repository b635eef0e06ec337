"""From an offset in the source to the one in the target: by the hops of mirrored records.

A mirror copies the records of a partition in their order, so in the target the offsets that they
had in the source only grow, and a binary search finds one. Others may have written between them:
these have no hop, or another. Where a mirror goes the other way too, both partitions have records
of both clusters, in different orders; then the translation is the first record that a reader of the
source has not read, and some that come after it in the target may have been read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.pipeline.jobs.mirror_hops import Hop, last_hops
from ottla.pipeline.rows.fetcher import Fetcher

_PROBE_BYTES = 64 * 1024
_WINDOW = 1024
"""Offsets. Where the last copied record is looked for first."""


class Copied(NamedTuple):
    offset: int
    """In the log that was looked at."""
    hop: Hop | None
    """Where the record came from last; None for one that was written there."""


class Log(Protocol):
    """One partition of one cluster, from its first offset up to and without its last stable one."""

    start: int
    end: int

    def read(self, start: int, end: int) -> Iterator[Sequence[Copied]]:
        """The records in between, some at a time. Whoever has seen enough just stops."""


class PartitionLog:
    """Made for one look at a partition: what comes later is not seen."""

    def __init__(
        self,
        cluster: BlockingCluster,
        where: TopicPartition,
        topic_id: TopicId,
        start: int,
        end: int,
    ) -> None:
        self._cluster = cluster
        self._where = where
        self._topic_id = topic_id
        self.start = start
        self.end = end

    def read(self, start: int, end: int) -> Iterator[Sequence[Copied]]:
        fetcher = Fetcher(
            self._cluster,
            self._where,
            self._topic_id,
            start,
            end,
            columns=("offset", "headers"),
            max_bytes=_PROBE_BYTES,
            is_loss_allowed=True,  # retention goes on meanwhile
        )
        for batch in fetcher:
            offsets = batch.column("offset").to_pylist()
            hops = last_hops(batch.column("headers"))
            yield [Copied(*pair) for pair in zip(offsets, hops, strict=True)]


def first_copied(log: Log, cluster_id: str, offset: int) -> int | None:
    """Where the first record is that came from this cluster and had this offset there, or a higher
    one. None: there is none yet."""
    low, high, found = log.start, log.end, None
    while low < high:
        middle = (low + high) // 2
        some = _next_from(log, cluster_id, middle, high)
        if not some:
            high = middle
        elif some[0][1] >= offset:
            found, high = some[0][0], middle
        else:
            for place, original in some:
                if original >= offset:
                    return place
            low = some[-1][0] + 1
    return found


def last_copied(log: Log, cluster_id: str) -> int | None:
    """The offset that the last record which came from this cluster had there."""
    size, end = _WINDOW, log.end
    while end > log.start:
        start = max(log.start, end - size)
        found = None
        for copied in log.read(start, end):
            for _, hop in copied:
                if hop is not None and hop.cluster_id == cluster_id:
                    found = hop.offset
        if found is not None:
            return found
        size, end = 4 * size, start
    return None


def first_unread_return(
    source: Log, target: Log, source_id: str, target_id: str, offset: int, returned: int, end: int
) -> int:
    """Of the target's own records the first below `end` that a reader who is at `offset` in the
    source has not read there, or `end`. A mirror has brought those below `returned` to the
    source."""
    for copied in source.read(max(offset, source.start), source.end):
        for _, hop in copied:
            if hop is not None and hop.cluster_id == target_id:
                return min(hop.offset, end)
    for copied in target.read(max(returned, target.start), end):
        for place, hop in copied:
            if hop is None or hop.cluster_id != source_id:
                return place
    return end


def _next_from(log: Log, cluster_id: str, start: int, end: int) -> list[tuple[int, int]]:
    """The next few records from this cluster: where they are, and where they were."""
    for copied in log.read(start, end):
        found = [
            (place, hop.offset)
            for place, hop in copied
            if hop is not None and hop.cluster_id == cluster_id
        ]
        if found:
            return found
    return []
