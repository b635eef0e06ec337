"""The topics that brokers keep for themselves."""

from __future__ import annotations

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

_INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


def is_internal(topic: str) -> bool:
    return topic in _INTERNAL
