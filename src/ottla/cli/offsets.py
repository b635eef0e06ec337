"""Offsets of partitions, asked of their leaders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.client import REQUEST_TIMEOUT_S, wait_for

Partition = tuple[str, int]

EARLIEST = OffsetSpec.earliest()
LATEST = OffsetSpec.latest()


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
