"""What of the topics a group depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from ottla.coordinators.groups.context import TopicLookup


class ResolvedRegex(NamedTuple):
    topics: frozenset[str]
    version: int
    """Kafka's number of the metadata by which it was resolved; there is none here."""
    timestamp_ms: int


def metadata_hash(names: Iterable[str], topics: TopicLookup) -> int:
    """Changes when one of the topics is created, deleted or gets partitions; 0 for none. Kept in
    the group's record (KIP-1101), so it must be the same in every process. Kafka hashes in
    another way: a group that comes from there is assigned once anew."""
    digest = hashlib.blake2b(digest_size=8)
    is_empty = True
    for name in sorted(names):
        topic = topics.by_name(name)
        if topic is not None:
            is_empty = False
            digest.update(topic.id)
            digest.update(topic.partition_count.to_bytes(4, "big"))
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
