"""Reads a history, and finds what must not be in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.testing.history.anomaly import Anomaly
from ottla.testing.history.committed_log import committed_logs
from ottla.testing.history.events import Event
from ottla.testing.history.facts import Facts
from ottla.testing.history.group_offsets import check_group_offsets
from ottla.testing.history.reads import check_reads
from ottla.testing.history.replica_log import ReplicaLog
from ottla.testing.history.replicas import check_replicas
from ottla.testing.history.transactions import check_transactions
from ottla.testing.history.writes import check_writes


def find_anomalies(history: Iterable[Event], replicas: Sequence[ReplicaLog] = ()) -> list[Anomaly]:
    """Of clients whose producers are idempotent and whose groups commit no lower offset than
    before. With the logs of all replicas, after the cluster has healed and every transaction has
    ended; without them, as far as the clients alone can tell."""
    facts = Facts(history, committed_logs(replicas))
    return [
        *check_writes(facts),
        *check_reads(facts),
        *check_transactions(facts),
        *check_group_offsets(facts),
        *check_replicas(facts, replicas),
    ]
