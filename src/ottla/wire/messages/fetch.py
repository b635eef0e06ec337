"""Fetch: records from given offsets on, for consumers and for followers.

- Version 4 is the first with record batches of magic 2, and with isolation levels.
- 5 tells log start offsets.
- 7 has fetch sessions: only what changed is sent, both ways (KIP-227).
- 9 fences by the leader epoch that the client knows (KIP-320).
- 10 allows zstd (KIP-110).
- 11 may point a consumer to a replica that is nearer to its rack (KIP-392).
- 12 is flexible, and detects by `last_fetched_epoch` that a log has diverged (KIP-595).
- 13 has topic ids in place of names (KIP-516).
- 15 replaces the replica id by a tagged state with the broker's epoch (KIP-903).
- 16 points to the new leader (KIP-951).
- 17 names the follower's directory (KIP-853), 18 its high watermark (KIP-1166).
"""

from __future__ import annotations

from ottla.kernel.disk import FileSlice
from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)


class ReplicaState(Struct, frozen=True):
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1, ignorable=False)
    # From followers only.
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    # The largest integer says that the follower does not send it.
    high_watermark: int = int64("18+", tag=1, default=0x7FFF_FFFF_FFFF_FFFF)


class FetchTopic(Struct):
    topic: str = string("4-12")
    topic_id: TopicId = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("7-12")
    topic_id: TopicId = uuid("13+")
    partitions: list[int] = array(int32())


class FetchRequest(Request, api_key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None)
    # -1 is a consumer, in both of these.
    replica_id: int = int32("4-14", default=-1, ignorable=False)
    replica_state: ReplicaState = nested(ReplicaState, "15+", tag=1, ignorable=False)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    # Both limits yield to the first batch, which is sent whole whatever its size (KIP-74).
    max_bytes: int = int32(default=0x7FFF_FFFF)
    isolation_level: int = int8()
    session_id: int = int32("7+")
    # -1 means no session, 0 asks for a new one.
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", ignorable=False)
    rack_id: str = string("11+")


class EpochEndOffset(Struct, frozen=True):
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct, frozen=True):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct, frozen=True):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2)
    # Null unless the reader asked for committed records only.
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="4+")
    # -1 means to stay with this broker.
    preferred_read_replica: int = int32("11+", default=-1)
    records: bytes | memoryview | FileSlice | list[FileSlice] | None = records(nullable="4+")


class FetchableTopicResponse(Struct):
    topic: str = string("4-12")
    topic_id: TopicId = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="16+", default=None)


class FetchResponse(Response, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
