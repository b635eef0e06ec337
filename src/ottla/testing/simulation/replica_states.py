"""What replicas know beyond the records of their logs: producers, leader epochs, aborted
transactions. Whoever leads next decides by it, so it must be equal, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ottla.replication.partition import Partition
from ottla.storage.producer_entry import ProducerEntry
from ottla.testing.simulation.cluster import SimulatedCluster


def find_differences(cluster: SimulatedCluster) -> list[str]:
    """Of a cluster that has healed, and that nobody writes to."""
    found: list[str] = []
    for name, broker_ids, _ in cluster.partitions():
        replicas: dict[int, Partition] = {}
        for broker_id in broker_ids:
            replica = cluster.machines[broker_id].broker.replicas.hosted(name)
            if replica is None:
                found.append(f"{name} is not on broker {broker_id}")
            else:
                replicas[broker_id] = replica
        for (one_id, one), (other_id, other) in pairwise(replicas.items()):
            where = f"{name} on brokers {one_id} and {other_id}"
            found += [f"{where}: {what}" for what in _differences(one, other)]
    return found


def _differences(one: Partition, other: Partition) -> Iterator[str]:
    if one.log.log_end_offset != other.log.log_end_offset:
        yield f"ends at {one.log.log_end_offset} and {other.log.log_end_offset}"
        return
    if one.high_watermark != other.high_watermark:
        yield f"is committed up to {one.high_watermark} and {other.high_watermark}"
    start_offset = max(one.log.log_start_offset, other.log.log_start_offset)
    # The first that is known begins where the log once did: in a crash that goes back.
    first = max(start_offset, *(_first_epoch_start(each) for each in (one, other)))
    epochs = [_epochs(each, first) for each in (one, other)]
    if epochs[0] != epochs[1]:
        yield f"leader epochs are {epochs[0]} and {epochs[1]}"
    yield from _producers(one, other, is_whole=start_offset == 0)


def _first_epoch_start(partition: Partition) -> int:
    entries = partition.log.leader_epochs.entries
    return entries[0].start_offset if entries else 0


def _epochs(partition: Partition, start_offset: int) -> list[tuple[int, int]]:
    """Of epochs that have records: a leader knows its own before it has written any."""
    end_offset = partition.log.log_end_offset
    return [
        (epoch, start)
        for epoch, start in partition.log.leader_epochs.entries
        if start_offset < start < end_offset
    ]


def _producers(one: Partition, other: Partition, *, is_whole: bool) -> Iterator[str]:
    """One whose records are all deleted is known only where they once were."""
    here, there = (each.log.producer_state.producers for each in (one, other))
    if is_whole and here.keys() != there.keys():
        yield f"producers are {sorted(here)} and {sorted(there)}"
    for producer_id in sorted(here.keys() & there.keys()):
        entries = [here[producer_id], there[producer_id]]
        if _text(entries[0]) != _text(entries[1]) and (is_whole or _have_batches(entries)):
            yield f"producer {producer_id} is {_text(entries[0])} and {_text(entries[1])}"


def _have_batches(entries: Sequence[ProducerEntry]) -> bool:
    return all(entry.batches for entry in entries)


def _text(entry: ProducerEntry) -> str:
    # Not its timestamp: a snapshot has one for all that the producer has done.
    last = entry.batches[-1][:3] if entry.batches else None
    return (
        f"epoch {entry.producer_epoch}, next sequence {entry.next_sequence}, last batch {last}, "
        f"transaction from {entry.current_txn_first_offset}"
    )
