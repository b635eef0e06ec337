"""What is in `ottla.wire.messages.consumer_protocol`, against bytes written by hand."""

from __future__ import annotations

import pytest

from ottla.wire.codec import MalformedMessage
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_embedded,
    encode_embedded,
    version_of,
)

TOPICS = b"\0\0\0\1\0\1t"
NO_USER_DATA = b"\xff\xff\xff\xff"
OWNED = b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\5"
GENERATION = b"\0\0\0\7"
RACK = b"\0\1r"

SUBSCRIPTIONS = [
    b"\0\0" + TOPICS + NO_USER_DATA,
    b"\0\1" + TOPICS + NO_USER_DATA + OWNED,
    b"\0\2" + TOPICS + NO_USER_DATA + OWNED + GENERATION,
    b"\0\3" + TOPICS + NO_USER_DATA + OWNED + GENERATION + RACK,
]


@pytest.mark.parametrize("version", range(4))
def test_subscriptions(version: int) -> None:
    whole = ConsumerProtocolSubscription(
        topics=["t"],
        owned_partitions=[TopicPartition(topic="t", partitions=[0, 5])],
        generation_id=7,
        rack_id="r",
    )
    written = encode_embedded(whole, version)
    assert written == SUBSCRIPTIONS[version]
    read = decode_embedded(ConsumerProtocolSubscription, written)
    assert read.topics == ["t"]
    assert bool(read.owned_partitions) == (version >= 1)
    assert read.generation_id == (7 if version >= 2 else -1)
    assert read.rack_id == ("r" if version >= 3 else None)


@pytest.mark.parametrize("version", range(4))
def test_assignments(version: int) -> None:
    whole = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=[0, 5])], user_data=b"x"
    )
    written = encode_embedded(whole, version)
    assert written == bytes([0, version]) + OWNED + b"\0\0\0\1x"
    assert decode_embedded(ConsumerProtocolAssignment, written) == whole


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    newer = b"\0\x09" + SUBSCRIPTIONS[3][2:] + b"what comes then"
    assert version_of(newer) == 3
    assert decode_embedded(ConsumerProtocolSubscription, newer).rack_id == "r"


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0", b"\xff\xff", SUBSCRIPTIONS[3][:-1]])
def test_what_is_no_subscription_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_embedded(ConsumerProtocolSubscription, content)
