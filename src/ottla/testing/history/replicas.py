"""What must hold of the replicas of a partition, and of its leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.anomaly import Anomaly, AnomalyKind
from ottla.testing.history.events import LeaderSeen
from ottla.testing.history.facts import Facts
from ottla.testing.history.replica_log import LoggedBatch, ReplicaLog


def check_replicas(facts: Facts, replicas: Iterable[ReplicaLog]) -> Iterator[Anomaly]:
    """Of a cluster that has healed: every replica is in sync."""
    yield from _leaders_seen(facts)
    logs: defaultdict[TopicPartition, list[ReplicaLog]] = defaultdict(list)
    for replica in replicas:
        logs[replica.partition].append(replica)
    acknowledged: defaultdict[TopicPartition, int] = defaultdict(int)
    for record in facts.sent.values():
        if record.is_acknowledged and record.offset is not None:
            partition = record.send.partition
            acknowledged[partition] = max(acknowledged[partition], record.offset + 1)
    for partition, of_partition in logs.items():
        high_watermark = max(replica.high_watermark for replica in of_partition)
        yield from _compare(of_partition, max(high_watermark, acknowledged[partition]))
        for replica in of_partition:
            yield from _epochs(replica)


def _leaders_seen(facts: Facts) -> Iterator[Anomaly]:
    leaders: dict[tuple[TopicPartition, int], int] = {}
    for _, event in facts.events:
        if isinstance(event, LeaderSeen):
            key = (event.partition, event.leader_epoch)
            known = leaders.setdefault(key, event.leader)
            if known != event.leader:
                yield Anomaly(
                    AnomalyKind.TWO_LEADERS_IN_AN_EPOCH,
                    f"{event.partition} had leaders {known} and {event.leader} in epoch "
                    f"{event.leader_epoch}",
                )


def _compare(replicas: Sequence[ReplicaLog], end_offset: int) -> Iterator[Anomaly]:
    for replica in replicas:
        if replica.end_offset < end_offset:
            yield Anomaly(
                AnomalyKind.REPLICAS_DIFFER,
                f"{replica.partition} ends at {replica.end_offset} on broker {replica.broker_id}, "
                f"and is committed up to {end_offset}",
            )
    first, *others = replicas
    batches = _by_offset(first)
    for other in others:
        start_offset = max(first.start_offset, other.start_offset)
        there = _by_offset(other)
        for offset in sorted(batches.keys() | there.keys()):
            one, two = batches.get(offset), there.get(offset)
            if offset < start_offset:
                continue
            if one is not None and two is not None and one == two:
                continue
            if offset < end_offset:
                yield Anomaly(
                    AnomalyKind.REPLICAS_DIFFER,
                    f"{first.partition} has at {offset} on broker {first.broker_id} {_text(one)}, "
                    f"on broker {other.broker_id} {_text(two)}",
                )
            if one is not None and two is not None and _epoch(one) == _epoch(two):
                yield Anomaly(
                    AnomalyKind.TWO_LEADERS_IN_AN_EPOCH,
                    f"{first.partition} has at {offset} two batches of epoch {_epoch(one)}, on "
                    f"brokers {first.broker_id} and {other.broker_id}",
                )


def _epochs(replica: ReplicaLog) -> Iterator[Anomaly]:
    for one, two in pairwise(replica.batches):
        if _epoch(two) < _epoch(one):
            yield Anomaly(
                AnomalyKind.TWO_LEADERS_IN_AN_EPOCH,
                f"{replica.partition} goes back from epoch {_epoch(one)} to {_epoch(two)} at "
                f"{two.header.base_offset} on broker {replica.broker_id}",
            )


def _by_offset(replica: ReplicaLog) -> dict[int, LoggedBatch]:
    return {batch.header.base_offset: batch for batch in replica.batches}


def _epoch(batch: LoggedBatch) -> int:
    return batch.header.partition_leader_epoch


def _text(batch: LoggedBatch | None) -> str:
    if batch is None:
        return "nothing"
    what = batch.marker or [value for _, value in batch.values][:3]
    return f"{what} of epoch {_epoch(batch)}"
