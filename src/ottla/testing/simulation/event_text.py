"""Events of clients as lines of a trace."""

from __future__ import annotations

from ottla.testing.history.events import (
    Acknowledged,
    AskCommit,
    Assigned,
    Begin,
    Ended,
    Event,
    LeaderSeen,
    Offsets,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetsListed,
    Polled,
    Send,
    SendFailed,
    SendOffsets,
    SendUnknown,
)
from ottla.testing.simulation.entry import Mark


def described(event: Event) -> tuple[Mark, str]:
    """All of it, as the hash of a trace is made from it."""
    match event:
        case Send(_, value, partition, transaction, source):
            made_from = "" if source is None else f", from {source.partition} at {source.offset}"
            within = "" if transaction is None else f" in {transaction}"
            return Mark.SENT, f"sends {value} to {partition}{within}{made_from}"
        case Acknowledged(_, value, offset):
            where = "before" if offset is None else f"at {offset}"
            return Mark.ACKNOWLEDGED, f"{value} is acknowledged {where}"
        case SendFailed(_, value) | SendUnknown(_, value):
            is_certain = isinstance(event, SendFailed)
            return Mark.SENT, f"{value} {'has failed' if is_certain else 'has an unknown outcome'}"
        case Begin(_, transaction):
            return Mark.TRANSACTION, f"begins {transaction}"
        case SendOffsets(_, transaction, group, offsets):
            return Mark.TRANSACTION, f"sends {_text(offsets)} of {group} in {transaction}"
        case AskCommit(_, transaction):
            return Mark.TRANSACTION, f"asks to commit {transaction}"
        case Ended(_, transaction, outcome):
            return Mark.TRANSACTION, f"{transaction} is {outcome}"
        case Polled(_, records, is_read_committed, transaction):
            seen = ", ".join(f"{each.partition} {each.offset} {each.value}" for each in records)
            within = "" if transaction is None else f" in {transaction}"
            return Mark.READ, f"reads{_uncommitted(is_read_committed)}{within}: {seen or 'nothing'}"
        case _:
            return _described_position(event)


def _described_position(event: Event) -> tuple[Mark, str]:
    match event:
        case Assigned(_, positions):
            return Mark.GROUP, f"reads from {_text(positions)}"
        case OffsetsCommitted(_, group, offsets, is_known):
            unknown = "" if is_known else ", and does not know whether it did"
            return Mark.GROUP, f"commits {_text(offsets)} of {group}{unknown}"
        case OffsetsFetched(_, group, offsets, since):
            return Mark.GROUP, f"is told {_text(offsets)} of {group}, asked at event {since}"
        case OffsetsListed(_, offsets, is_read_committed):
            return Mark.READ, f"is told ends{_uncommitted(is_read_committed)}: {_text(offsets)}"
        case LeaderSeen(_, partition, leader, leader_epoch):
            return Mark.OTHER, f"is told that {leader} leads {partition} in epoch {leader_epoch}"
        case _:
            return Mark.OTHER, str(event)


def _text(offsets: Offsets) -> str:
    return ", ".join(f"{each} {offset}" for each, offset in offsets.items()) or "nothing"


def _uncommitted(is_read_committed: bool) -> str:
    return "" if is_read_committed else " also what is not committed"
