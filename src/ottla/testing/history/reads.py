"""What must hold of readers: they are given what is committed, all of it, in the order of offsets,
and are never told an end below one that they have seen."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.anomaly import Anomaly, AnomalyKind
from ottla.testing.history.events import Assigned, OffsetsListed, Outcome, Polled
from ottla.testing.history.facts import Facts

_NOWHERE = -1


def check_reads(facts: Facts) -> Iterator[Anomaly]:
    yield from _uncommitted_reads(facts)
    yield from _Positions(facts).check()
    yield from _ends(facts)


def _uncommitted_reads(facts: Facts) -> Iterator[Anomaly]:
    for at, poll in facts.polls:
        if not poll.is_read_committed:
            continue
        for read in poll.records:
            record = facts.sent.get(read.value)
            if record is None:
                continue  # A matter of `writes.py`.
            where = f"{poll.client} read {read.value!r} at {read.offset} of {read.partition}"
            if facts.outcome_of(record) is Outcome.ABORTED:
                what = record.send.transaction
                was = f"of {what}, which was aborted" if what else "which could not be sent"
                yield Anomaly(AnomalyKind.ABORTED_READ, f"{where}, {was}")
            elif record.send.transaction is not None:
                asked_at = facts.transactions[record.send.transaction].commit_asked_at
                if asked_at is not None and at < asked_at:
                    yield Anomaly(
                        AnomalyKind.PRECOMMITTED_READ,
                        f"{where} before the commit of {record.send.transaction} was asked for",
                    )


class _Positions:
    """Where each reader stands."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._next: dict[tuple[str, TopicPartition], int] = {}

    def check(self) -> Iterator[Anomaly]:
        for _, event in self._facts.events:
            if isinstance(event, Assigned):
                for client, partition in list(self._next):
                    if client == event.client:
                        del self._next[client, partition]
                for partition, offset in event.positions.items():
                    if offset != _NOWHERE:
                        self._next[event.client, partition] = offset
            elif isinstance(event, Polled):
                yield from self._poll(event)

    def _poll(self, poll: Polled) -> Iterator[Anomaly]:
        for read in poll.records:
            key = (poll.client, read.partition)
            position = self._next.get(key, read.offset)
            if read.offset < position:
                yield Anomaly(
                    AnomalyKind.NONMONOTONIC_POLL,
                    f"{poll.client} was at {position} of {read.partition}, and read {read.value!r} "
                    f"at {read.offset}",
                )
            for offset in range(position, read.offset):
                if self._facts.is_visible(
                    read.partition, offset, is_read_committed=poll.is_read_committed
                ):
                    value = self._facts.seen[read.partition][offset]
                    yield Anomaly(
                        AnomalyKind.SKIPPED_POLL,
                        f"{poll.client} went from {position} to {read.offset} of {read.partition}, "
                        f"over {value!r} at {offset}",
                    )
            self._next[key] = read.offset + 1


def _ends(facts: Facts) -> Iterator[Anomaly]:
    known: dict[tuple[str, TopicPartition, bool], int] = {}
    for _, event in facts.events:
        if isinstance(event, Polled):
            for read in event.records:
                key = (event.client, read.partition, event.is_read_committed)
                known[key] = max(read.offset + 1, known.get(key, 0))
        elif isinstance(event, OffsetsListed):
            for partition, offset in event.offsets.items():
                key = (event.client, partition, event.is_read_committed)
                if offset < known.get(key, 0):
                    yield Anomaly(
                        AnomalyKind.LIST_OFFSETS_BACK,
                        f"{event.client} knew that {partition} reaches to {known[key]}, and was "
                        f"told {offset}",
                    )
                known[key] = max(offset, known.get(key, 0))
