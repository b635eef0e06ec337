"""Which topics a regular expression stands for, and what of the topics a group depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from ottla.coordinators.groups.context import TopicLookup
from ottla.kernel.errors import ErrorCode, KafkaError

_MAX_MEMORY_BYTES = 1024 * 1024
"""Of one expression. What does not fit is refused: an expression comes from a client."""


class ResolvedRegex(NamedTuple):
    topics: frozenset[str]
    version: int
    """Kafka's number of the metadata by which it was resolved; there is none here."""
    timestamp_ms: int


def check_regex(regex: str) -> None:
    """Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    _compile(regex)


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Those that match from beginning to end."""
    pattern = _compile(regex)
    return frozenset(name for name in names if pattern.fullmatch(name) is not None)


@lru_cache(maxsize=256)
def _compile(regex: str) -> Any:
    # Most brokers never see an expression, and this import takes 10 ms.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression {regex[:100]!r} is not one of RE2: {str(reason)[:200]}",
        ) from None


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
