"""What consumers of a classic group say in JoinGroup about the topics they read."""

from __future__ import annotations

import struct

from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.schema import Message, array, string

_VERSION = struct.Struct(">h")


class _Subscription(Message, versions="0"):
    """The beginning of Kafka's ConsumerProtocolSubscription, the same in all its versions."""

    topics: list[str] = array(string())


def subscribed_topics_of(metadata: bytes) -> set[str]:
    """Raises MalformedMessage."""
    if len(metadata) < _VERSION.size:
        raise MalformedMessage("a subscription without a version")
    (version,) = _VERSION.unpack_from(metadata)
    if version < 0:
        raise MalformedMessage(f"a subscription has no version {version}")
    subscription, _ = decode(_Subscription, 0, metadata, _VERSION.size)
    return set(subscription.topics)
