"""OffsetCommit: how far a group has read.

Versions 0 and 1 went with Kafka 4: they wrote to ZooKeeper, or carried a time of commit.

- Up to version 4 the client says how long to keep an offset; since then the broker does.
- 6 has the leader epoch of the last record that was read (KIP-320).
- 7 names static members (KIP-345).
- 8 is flexible.
- 9 is for members of the newer protocol too (KIP-848).
- 10 has topic ids in place of names.
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(nullable="2+")


class OffsetCommitRequestTopic(Struct):
    name: str = string("2-9")
    topic_id: TopicId = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Request, api_key=8, versions="2-10", flexible="8+"):
    group_id: str = string()
    # -1 together with an empty member id is a consumer that is in no group.
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable="7+", default=None, ignorable=False)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Struct):
    name: str = string("2-9")
    topic_id: TopicId = uuid("10+")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Response, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
