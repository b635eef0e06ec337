"""What of the topics a group depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from ottla.coordinators.groups.context import TopicInfo, TopicLookup
from ottla.kernel.slices import Steps, sorted_in_steps


class ResolvedRegex(NamedTuple):
    topics: frozenset[str]
    version: int
    """Kafka's number of the metadata by which it was resolved; there is none here."""
    timestamp_ms: int


def metadata_hash(names: Iterable[str], topics: TopicLookup) -> Steps[int]:
    """Changes when one of the topics is created, deleted or gets partitions; 0 for none. Kept in
    the group's record (KIP-1101), so it must be the same in every process. Kafka hashes in
    another way: a group that comes from there is assigned once anew."""
    found: list[TopicInfo] = []
    for name in names:
        topic = topics.by_name(name)
        if topic is not None:
            found.append(topic)
        yield
    digest = hashlib.blake2b(digest_size=8)
    for topic in (yield from sorted_in_steps(found, key=lambda topic: topic.name)):
        digest.update(topic.id)
        digest.update(topic.partition_count.to_bytes(4, "big"))
        yield
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
