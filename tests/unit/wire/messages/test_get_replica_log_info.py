"""No release of Kafka has these messages yet: their bytes are written out here."""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.kernel.transport import Part
from ottla.wire.codec import codec
from ottla.wire.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitionLogInfo,
    TopicPartitions,
)
from ottla.wire.schema import Message

TOPIC_ID = TopicId(bytes(range(16)))

REQUEST = (
    b"\x02"  # one topic
    + TOPIC_ID
    + b"\x03" + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x07"  # partitions 0 and 7
    + b"\x00\x00"  # no tagged fields, of topic and request
)  # fmt: skip

RESPONSE = (
    b"\x00\x00\x00\x05"  # throttle time
    + b"\x00\x00\x00\x00\x00\x00\x00\x2a"  # broker epoch
    + b"\x01"  # truncated
    + b"\x02"
    + TOPIC_ID
    + b"\x02"
    + b"\x00\x00\x00\x07" + b"\x00\x00\x00\x03" + b"\x00\x00\x00\x04"  # partition, epochs
    + b"\x00\x00\x00\x00\x00\x00\x01\x00"  # log end offset
    + b"\x00\x38"  # error code
    + b"\x00\x00\x00"
)  # fmt: skip


def check(message: Message, content: bytes) -> None:
    out: list[Part] = []
    codec(type(message), 0).encode(message, out)
    assert b"".join(part for part in out if isinstance(part, bytes)) == content
    assert codec(type(message), 0).decode(content, 0) == (message, len(content))


def test_the_request() -> None:
    asked = TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 7])
    check(GetReplicaLogInfoRequest(topic_partitions=[asked]), REQUEST)
    check(GetReplicaLogInfoRequest(topic_partitions=None), b"\x00\x00")


def test_the_response() -> None:
    info = PartitionLogInfo(
        partition=7,
        last_written_leader_epoch=3,
        current_leader_epoch=4,
        log_end_offset=256,
        error_code=56,
    )
    topic = TopicPartitionLogInfo(topic_id=TOPIC_ID, partition_log_info=[info])
    check(
        GetReplicaLogInfoResponse(
            throttle_time_ms=5,
            broker_epoch=42,
            truncated=True,
            topic_partition_log_info_list=[topic],
        ),
        RESPONSE,
    )
