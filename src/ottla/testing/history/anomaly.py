"""What a checker may find. The names are those of Jepsen's Kafka workload, where it has one."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class AnomalyKind(StrEnum):
    LOST_WRITE = "lost write"
    """A record that was acknowledged, or read, is not in the log."""
    UNSEEN = "unseen"
    """A record that is committed was never read, though its partition was read to the end."""
    UNSENT_READ = "unsent read"
    """A record that nobody sent."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """Two records at one offset: what was read, or acknowledged there, does not stay equal."""
    DUPLICATE = "duplicate"
    """One record at two offsets, or two committed records that were made from one."""
    ABORTED_READ = "aborted read"
    PRECOMMITTED_READ = "precommitted read"
    """A record was read before anybody asked to commit its transaction."""
    SKIPPED_POLL = "skipped poll"
    """A reader went over a record that it should have been given."""
    NONMONOTONIC_POLL = "nonmonotonic poll"
    SKIPPED_SEND = "skipped send"
    """The sequence numbers of a producer have a gap in the log."""
    NONMONOTONIC_SEND = "nonmonotonic send"
    """Records of one producer are not in the order in which it sent them."""
    TORN_TRANSACTION = "torn transaction"
    """Not all of a transaction has one outcome, or not the one that its producer was told."""
    HANGING_TRANSACTION = "hanging transaction"
    """Nothing ends it: readers of what is committed wait before it for ever."""
    CYCLE = "cycle"
    """Transactions of which each comes before the next, and the last before the first."""
    OFFSET_FETCH_BACK = "OffsetFetch back"
    """A group had an offset, and is told a lower one."""
    UNCOMMITTED_OFFSET_FETCHED = "uncommitted offset fetched"
    """A group is told an offset that nobody has committed for it."""
    LIST_OFFSETS_BACK = "ListOffsets back"
    """A reader is told an end below one that it was told, or below what it has read."""
    REPLICAS_DIFFER = "replicas differ"
    """Below the high watermark."""
    TWO_LEADERS_IN_AN_EPOCH = "two leaders in an epoch"


class Anomaly(NamedTuple):
    kind: AnomalyKind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"
