"""What a topic may be called."""

from __future__ import annotations

import re
from collections.abc import Collection

from ottla.kernel.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249  # A folder is the name, a dash, a partition and a deletion suffix.

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


# Where Apache Kafka keeps its own metadata, in the same log folders.
_CLUSTER_METADATA = "__cluster_metadata"


def check_topic_name(name: str) -> None:
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_not_reserved(name: str) -> None:
    if name == _CLUSTER_METADATA:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{name!r} is kept for Apache Kafka's own metadata, so that a log folder can move"
            " there. Take another name.",
        )


class TopicNames:
    """That are taken, for all the topics that one event makes. Metric names turn '.' into '_', so
    that two topics that differ in nothing else would be one there."""

    def __init__(self, names: Collection[str]) -> None:
        self._existing = names
        self._added: set[str] = set()
        self._unified: dict[str, str] | None = None
        """By what metrics make of them. Made for the first name that has a '.' or '_'."""

    def add(self, name: str) -> None:
        self._added.add(name)
        if self._unified is not None:
            self._unified[_unified(name)] = name

    def check_free(self, name: str) -> None:
        """Raises KafkaError."""
        if name in self._existing or name in self._added:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." not in name and "_" not in name:
            return
        if self._unified is None:
            self._unified = {_unified(each): each for each in (*self._existing, *self._added)}
        other = self._unified.get(_unified(name))
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}. They differ only in '.' "
                "and '_', which metrics cannot tell apart; choose another name.",
            )


def _unified(name: str) -> str:
    return name.replace(".", "_")
