"""What must hold of the offsets of groups, whose members commit no offset below one before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.anomaly import Anomaly, AnomalyKind
from ottla.testing.history.events import OffsetsCommitted, OffsetsFetched, Outcome
from ottla.testing.history.facts import Facts

_NONE = -1

Key = tuple[str, TopicPartition]
Known = defaultdict[Key, list[tuple[int, int]]]
"""By group and partition: from which event on the group has which offset, or a higher one."""


def check_group_offsets(facts: Facts) -> Iterator[Anomaly]:
    known, written = _commits(facts)
    for at, event in facts.events:
        if not isinstance(event, OffsetsFetched):
            continue
        for partition, offset in event.offsets.items():
            key = (event.group, partition)
            least = max(
                (value for since, value in known[key] if since < event.since), default=_NONE
            )
            what = f"{event.client} was told {offset} of {partition} for the group {event.group}"
            if offset < least:
                yield Anomaly(AnomalyKind.OFFSET_FETCH_BACK, f"{what}, which had {least} before")
            is_written = any(value == offset and asked < at for asked, value in written[key])
            if offset != _NONE and not is_written:
                yield Anomaly(
                    AnomalyKind.UNCOMMITTED_OFFSET_FETCHED, f"{what}, and nobody has committed it"
                )
            known[key].append((at, offset))


def _commits(facts: Facts) -> tuple[Known, Known]:
    """Those that are certain, and from when on; and all that there may be."""
    known: Known = defaultdict(list)
    written: Known = defaultdict(list)
    for at, event in facts.events:
        if isinstance(event, OffsetsCommitted):
            for partition, offset in event.offsets.items():
                # It may have been fetched before its answer was told.
                written[event.group, partition].append((-1, offset))
                if event.is_known:
                    known[event.group, partition].append((at, offset))
    for transaction in facts.transactions.values():
        asked_at = transaction.commit_asked_at
        if asked_at is None or transaction.outcome is Outcome.ABORTED:
            continue
        for sent in transaction.offsets:
            for partition, offset in sent.offsets.items():
                written[sent.group, partition].append((asked_at, offset))
                if transaction.outcome is Outcome.COMMITTED and transaction.ended_at is not None:
                    known[sent.group, partition].append((transaction.ended_at, offset))
    return known, written
