"""Ids, as types, so that one cannot be passed for another."""

from __future__ import annotations

import base64
import random
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)

TopicId = NewType("TopicId", bytes)
"""Sixteen raw bytes. Kept raw because the data path only ever compares and hashes them."""

NO_TOPIC_ID = TopicId(bytes(16))
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")

# Kafka never hands these two out: the first means "none", the second its KRaft metadata log.
_RESERVED_TOPIC_IDS = frozenset({NO_TOPIC_ID, METADATA_TOPIC_ID})


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdAndEpoch(NamedTuple):
    """One life of a producer: of two with the same id, the higher epoch fences the other."""

    producer_id: int
    producer_epoch: int


def new_topic_id(rng: random.Random) -> TopicId:
    """A random version 4 UUID whose text does not begin with a dash (so that it can be an
    argument on a command line), as Kafka makes them."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = TopicId(bytes(raw))
        if topic_id not in _RESERVED_TOPIC_IDS and not topic_id_text(topic_id).startswith("-"):
            return topic_id


def topic_id_text(topic_id: TopicId) -> str:
    """The 22 characters that Kafka prints and stores: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_from_text(text: str) -> TopicId:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a topic id: it holds {len(raw)} bytes, not 16")
    return TopicId(raw)
