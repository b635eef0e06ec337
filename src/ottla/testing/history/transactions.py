"""What must hold of transactions: each has one outcome, in all partitions, the one that its
producer was told; and they can be put in an order.

Of the edges between transactions these count: one has read what the other wrote, and both are of
one client, one after the other. Kafka takes no locks: of two that run side by side, each may be
the first in one partition (Jepsen's G0), so who wrote first says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ottla.testing.history.anomaly import Anomaly, AnomalyKind
from ottla.testing.history.events import Outcome
from ottla.testing.history.facts import Facts, SentRecord, Transaction


def check_transactions(facts: Facts) -> Iterator[Anomaly]:
    if facts.logs:
        for transaction in facts.transactions.values():
            yield from _outcomes(facts, transaction)
        yield from _hanging(facts)
    yield from _cycles(facts)


def _outcomes(facts: Facts, transaction: Transaction) -> Iterator[Anomaly]:
    logged = {
        record.send.value: _logged_outcome(facts, record)
        for record in transaction.records
        if not facts.is_deleted(record)
        and (record.is_acknowledged or _logged_outcome(facts, record) is not None)
    }
    committed = [value for value, outcome in logged.items() if outcome is Outcome.COMMITTED]
    others = [value for value, outcome in logged.items() if outcome is not Outcome.COMMITTED]
    told = transaction.outcome
    if told is Outcome.ABORTED and committed:
        yield Anomaly(
            AnomalyKind.TORN_TRANSACTION,
            f"{transaction.name} was aborted, and {committed} are committed",
        )
    elif told is Outcome.COMMITTED and others:
        yield Anomaly(
            AnomalyKind.TORN_TRANSACTION,
            f"{transaction.name} was committed, and {others} are not",
        )
    elif committed and others:
        yield Anomaly(
            AnomalyKind.TORN_TRANSACTION,
            f"of {transaction.name}, {committed} are committed and {others} are not",
        )


def _logged_outcome(facts: Facts, record: SentRecord) -> Outcome | None:
    """None of a record that is not there."""
    log = facts.logs.get(record.send.partition)
    if log is None or record.offset is None:
        return None
    logged = log.records.get(record.offset)
    return logged.outcome if logged is not None and logged.value == record.send.value else None


def _hanging(facts: Facts) -> Iterator[Anomaly]:
    for partition, log in facts.logs.items():
        for offset, record in log.records.items():
            if record.outcome is Outcome.UNKNOWN:
                yield Anomaly(
                    AnomalyKind.HANGING_TRANSACTION,
                    f"{record.value!r} at {offset} of {partition} by {record.producer}",
                )


def _cycles(facts: Facts) -> Iterator[Anomaly]:
    after: defaultdict[str, dict[str, str]] = defaultdict(dict)
    """By transaction: those that come after it, and why."""
    last: dict[str, str] = {}
    for name, transaction in facts.transactions.items():
        if transaction.outcome is not Outcome.ABORTED:
            if (before := last.get(transaction.client)) is not None:
                after[before][name] = f"was before, at {transaction.client},"
            last[transaction.client] = name
    for _, poll in facts.polls:
        reader = poll.transaction
        if reader is None or facts.transactions[reader].outcome is Outcome.ABORTED:
            continue
        for read in poll.records:
            record = facts.sent.get(read.value)
            writer = record.send.transaction if record is not None else None
            if writer is not None and writer != reader:
                after[writer][reader] = f"wrote {read.value!r}, read by"
    if (cycle := _find_cycle(after)) is not None:
        steps = [f"{one} {after[one][two]} {two}" for one, two in pairwise(cycle)]
        yield Anomaly(AnomalyKind.CYCLE, "; ".join(steps))


def _find_cycle(after: dict[str, dict[str, str]]) -> list[str] | None:
    """Depth first, without recursion: a client's transactions are a long chain."""
    done: set[str] = set()
    for start in list(after):
        path: list[str] = []
        is_on_path: set[str] = set()
        waiting: list[tuple[str, bool]] = [(start, False)]
        while waiting:
            name, is_left = waiting.pop()
            if is_left:
                path.pop()
                is_on_path.discard(name)
                done.add(name)
            elif name in is_on_path:
                return [*path[path.index(name) :], name]
            elif name not in done:
                path.append(name)
                is_on_path.add(name)
                waiting.append((name, True))
                waiting += [(following, False) for following in after.get(name, ())]
    return None
