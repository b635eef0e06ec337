"""Histories and logs that tests make up, in few words."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.kernel.ids import TopicPartition
from ottla.records.batch import parse_header
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker
from ottla.records.record import Record
from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.history.checker import find_anomalies
from ottla.testing.history.events import (
    Acknowledged,
    AskCommit,
    Begin,
    Ended,
    Event,
    Outcome,
    Polled,
    PolledRecord,
    Send,
    Source,
)
from ottla.testing.history.replica_log import LoggedBatch, ReplicaLog

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)


def kinds(history: Sequence[Event], *replicas: ReplicaLog) -> set[AnomalyKind]:
    return {anomaly.kind for anomaly in find_anomalies(history, replicas)}


def written(
    value: str,
    offset: int | None,
    partition: TopicPartition = P0,
    *,
    client: str = "producer",
    transaction: str | None = None,
    source: Source | None = None,
) -> list[Event]:
    """Sent and acknowledged."""
    return [
        Send(client, value, partition, transaction, source),
        Acknowledged(client, value, offset),
    ]


def transaction(
    name: str,
    *events: Event,
    client: str = "producer",
    outcome: Outcome | None = Outcome.COMMITTED,
) -> list[Event]:
    """From begin to end. Without an outcome it does not end."""
    done: list[Event] = [Begin(client, name), *events]
    if outcome in (Outcome.COMMITTED, Outcome.UNKNOWN):
        done.append(AskCommit(client, name))
    return [*done, Ended(client, name, outcome)] if outcome is not None else done


def polled(
    *records: tuple[int, str],
    partition: TopicPartition = P0,
    client: str = "reader",
    is_read_committed: bool = True,
    transaction: str | None = None,
) -> Polled:
    found = tuple(PolledRecord(partition, offset, value) for offset, value in records)
    return Polled(client, found, is_read_committed, transaction)


def batch(
    base_offset: int,
    *values: str,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> LoggedBatch:
    records = [
        Record(base_offset + number, 0, None, value.encode()) for number, value in enumerate(values)
    ]
    content = build_batch(
        records,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    found = tuple((base_offset + number, value) for number, value in enumerate(values))
    return LoggedBatch(parse_header(content), found)


def marker(
    offset: int, producer_id: int, outcome: Outcome = Outcome.COMMITTED, *, leader_epoch: int = 0
) -> LoggedBatch:
    kind = ControlType.COMMIT if outcome is Outcome.COMMITTED else ControlType.ABORT
    content = build_end_txn_marker(
        kind,
        offset=offset,
        timestamp=0,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        leader_epoch=leader_epoch,
    )
    return LoggedBatch(parse_header(content), (), outcome)


def replica(
    *batches: LoggedBatch,
    partition: TopicPartition = P0,
    broker_id: int = 1,
    start_offset: int = 0,
    high_watermark: int = 0,
) -> ReplicaLog:
    return ReplicaLog(broker_id, partition, start_offset, high_watermark, batches)
