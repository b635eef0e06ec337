"""The events of a history: what clients asked for, and what they were told.

Values are texts, and no two records of a history have the same one: by its value the checker knows
a record wherever it sees it again. A call that is told when it returns carries `since`: how many
events there were when it was made (`History.now`), so that it can be told what came before it from
what merely ran beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition

Offsets = Mapping[TopicPartition, int]


class Outcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The client cannot find out: it was fenced, or killed."""


class Source(NamedTuple):
    """The record that another one was made from, by those who read as one group."""

    group: str
    partition: TopicPartition
    offset: int


class Send(NamedTuple):
    """The client hands over a record. Those of one client are sent in this order."""

    client: str
    value: str
    partition: TopicPartition
    transaction: str | None = None
    source: Source | None = None


class Acknowledged(NamedTuple):
    client: str
    value: str
    offset: int | None
    """None when the broker has only said that it has the record already."""


class SendFailed(NamedTuple):
    """Certainly: the record is not, and will never be, in the log."""

    client: str
    value: str


class SendUnknown(NamedTuple):
    """The record may be in the log, or come into it later."""

    client: str
    value: str


class Begin(NamedTuple):
    client: str
    transaction: str


class SendOffsets(NamedTuple):
    """Offsets that the group shall have when the transaction is committed."""

    client: str
    transaction: str
    group: str
    offsets: Offsets


class AskCommit(NamedTuple):
    """From here on the transaction may be seen."""

    client: str
    transaction: str


class Ended(NamedTuple):
    client: str
    transaction: str
    outcome: Outcome


class Assigned(NamedTuple):
    """The client reads these partitions, and no others, from here on. -1 where it does not know
    from which offset."""

    client: str
    positions: Offsets


class PolledRecord(NamedTuple):
    partition: TopicPartition
    offset: int
    value: str


class Polled(NamedTuple):
    client: str
    records: tuple[PolledRecord, ...]
    is_read_committed: bool = True
    transaction: str | None = None
    """The one in which the client reads, where what it writes depends on what it has read."""


class OffsetsCommitted(NamedTuple):
    client: str
    group: str
    offsets: Offsets
    is_known: bool
    """False when it may have been committed, or may still be."""


class OffsetsFetched(NamedTuple):
    """-1 of a partition that has none."""

    client: str
    group: str
    offsets: Offsets
    since: int


class OffsetsListed(NamedTuple):
    """The ends that the client was told: last stable offsets to one that reads what is
    committed, else high watermarks."""

    client: str
    offsets: Offsets
    is_read_committed: bool


class LeaderSeen(NamedTuple):
    client: str
    partition: TopicPartition
    leader: int
    leader_epoch: int


Event = (
    Send
    | Acknowledged
    | SendFailed
    | SendUnknown
    | Begin
    | SendOffsets
    | AskCommit
    | Ended
    | Assigned
    | Polled
    | OffsetsCommitted
    | OffsetsFetched
    | OffsetsListed
    | LeaderSeen
)
