"""Offsets of partitions, asked of their leaders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.client import REQUEST_TIMEOUT_S, wait_for
from ottla.cli.errors import Failure

Partition = tuple[str, int]

EARLIEST = OffsetSpec.earliest()
LATEST = OffsetSpec.latest()
_NO_RECORD = -1
"""The offset that a leader tells if no record follows a timestamp."""


class Bounds(NamedTuple):
    """Of a partition's log."""

    earliest: int
    latest: int
    """Behind the last record that all in-sync replicas have."""


def offsets_of(
    admin: AdminClient,
    partitions: Iterable[Partition],
    spec: Any,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Partition, int]:
    """A partition whose leader can't be asked is left out; with a timestamp that nothing
    follows, its offset is -1."""
    wanted = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not wanted:
        return {}
    futures = admin.list_offsets(
        wanted, isolation_level=isolation_level, request_timeout=REQUEST_TIMEOUT_S
    )
    answers, _ = wait_for(futures)
    return {
        (partition.topic, partition.partition): answer.offset
        for partition, answer in answers.items()
    }


def bounds_of(admin: AdminClient, partitions: Collection[Partition]) -> dict[Partition, Bounds]:
    """Raises Failure where a partition has no leader that knows."""
    earliest = offsets_of(admin, partitions, EARLIEST)
    latest = offsets_of(admin, partitions, LATEST)
    _check_all_told(partitions, earliest)
    _check_all_told(partitions, latest)
    return {key: Bounds(earliest[key], latest[key]) for key in partitions}


def offsets_since(
    admin: AdminClient, bounds: Mapping[Partition, Bounds], timestamp_ms: int
) -> dict[Partition, int]:
    """Of the first record that is not older. Where none is as young as that, the next will be.
    Raises Failure where a partition has no leader that knows: its end would be a guess, by which
    others delete records or skip them."""
    found = offsets_of(admin, bounds, OffsetSpec.for_timestamp(timestamp_ms))
    _check_all_told(bounds, found)
    return {
        key: latest if found[key] == _NO_RECORD else found[key]
        for key, (_, latest) in bounds.items()
    }


def _check_all_told(partitions: Iterable[Partition], offsets: Mapping[Partition, int]) -> None:
    for topic, number in partitions:
        if (topic, number) not in offsets:
            raise Failure(f"{topic}:{number} has no leader that could be asked for its offsets")
