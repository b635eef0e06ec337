"""Which brokers hold which partition: Kafka's own algorithm.

Without racks: the first replica of partition i goes to broker (start + i) mod n, the others
follow it at a distance that grows by one each time the first replicas have gone round, so
that two brokers do not share all their partitions. With racks: the same over a list in which
the racks alternate, and a broker is passed over while its rack has a replica and another rack
has none.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from ottla.kernel.errors import ErrorCode, KafkaError


def place(
    racks: Mapping[int, str | None],
    *,
    partition_count: int,
    replication_factor: int,
    rng: random.Random,
) -> list[tuple[int, ...]]:
    """For a new topic, from a random start. `racks` has every live broker."""
    _check_replication_factor(racks, replication_factor)
    start = rng.randrange(len(racks))
    shift = rng.randrange(len(racks))
    return _place(racks, range(partition_count), replication_factor, start, shift)


def place_more(
    racks: Mapping[int, str | None],
    *,
    first_replica: int,
    partition_count: int,
    additional_count: int,
    replication_factor: int,
) -> list[tuple[int, ...]]:
    """For partitions added to a topic: goes on where `place` stopped, as far as that can be
    told from the first replica of partition 0."""
    _check_replication_factor(racks, replication_factor)
    ids = sorted(racks)
    start = next((index for index, broker in enumerate(ids) if broker >= first_replica), 0)
    numbers = range(partition_count, partition_count + additional_count)
    return _place(racks, numbers, replication_factor, start, start)


def _check_replication_factor(racks: Mapping[int, str | None], replication_factor: int) -> None:
    if replication_factor > len(racks):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{len(racks)} broker(s) are registered.",
        )


def _place(
    racks: Mapping[int, str | None],
    numbers: range,
    replication_factor: int,
    start: int,
    shift: int,
) -> list[tuple[int, ...]]:
    # Racks count only when every broker names one.
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(known) < len(racks):
        known = dict.fromkeys(racks, "")
    brokers = _alternate_racks(known)
    rack_count = len(set(known.values()))
    placed = []
    for number in numbers:
        if number > 0 and number % len(brokers) == 0:
            shift += 1
        first = (number + start) % len(brokers)
        placed.append(_replicas(brokers, known, rack_count, first, shift, replication_factor))
    return placed


def _replicas(
    brokers: Sequence[int],
    racks: Mapping[int, str],
    rack_count: int,
    first: int,
    shift: int,
    replication_factor: int,
) -> tuple[int, ...]:
    count = len(brokers)
    replicas = [brokers[first]]
    used_racks = {racks[brokers[first]]}
    step = 0
    while len(replicas) < replication_factor:
        distance = 1 + (shift * rack_count + step) % (count - 1)
        step += 1
        broker = brokers[(first + distance) % count]
        if broker in replicas or (racks[broker] in used_racks and len(used_racks) < rack_count):
            continue
        replicas.append(broker)
        used_racks.add(racks[broker])
    return tuple(replicas)


def _alternate_racks(racks: Mapping[int, str]) -> list[int]:
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    longest = max(map(len, by_rack.values()))
    return [
        by_rack[rack][index]
        for index in range(longest)
        for rack in sorted(by_rack)
        if index < len(by_rack[rack])
    ]
