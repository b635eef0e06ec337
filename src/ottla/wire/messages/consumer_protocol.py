"""What consumers of a classic group say to each other through the coordinator: not requests, but
the bytes of `metadata` in JoinGroup and of `assignment` in SyncGroup.

Two bytes of version stand before each. A newer version is read as the newest known one: fields are
only ever added at the end.

- Version 1 says what the member owns (KIP-429).
- 2 says since which generation (KIP-792).
- 3 says in which rack the member is (KIP-881).
"""

from __future__ import annotations

import struct
from typing import TypeVar

from ottla.kernel.transport import Part
from ottla.wire.codec import MalformedMessage, codec
from ottla.wire.schema import Message, Struct, array, bytestring, int32, string

PROTOCOL_TYPE = "consumer"

_VERSION = struct.Struct(">h")


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array(string())
    user_data: bytes | None = bytestring(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = bytestring(nullable="0+", default=None)


M = TypeVar("M", bound=Message)


def version_of(content: bytes) -> int:
    """The version in which the bytes are to be read, and an answer to them is to be written."""
    if len(content) < _VERSION.size:
        raise MalformedMessage("no version before a message of the consumer protocol")
    (version,) = _VERSION.unpack_from(content)
    if version < 0:
        raise MalformedMessage(f"the consumer protocol has no version {version}")
    return min(int(version), ConsumerProtocolSubscription.VERSIONS.stop - 1)


def decode_embedded(cls: type[M], content: bytes) -> M:
    """Raises MalformedMessage."""
    message, _ = codec(cls, version_of(content)).decode(content, _VERSION.size)
    return message


def encode_embedded(message: Message, version: int) -> bytes:
    parts: list[Part] = [_VERSION.pack(version)]
    codec(type(message), version).encode(message, parts)
    return b"".join(part for part in parts if isinstance(part, bytes))
