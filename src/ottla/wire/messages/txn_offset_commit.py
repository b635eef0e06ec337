"""TxnOffsetCommit: offsets of a group that take effect when a transaction commits.

- 2 has the leader epoch of the last record that was read (KIP-320).
- 3 is flexible, and names generation and member, so that a member that has lost its partitions is
  fenced (KIP-447).
- 4 may answer TRANSACTION_ABORTABLE (KIP-890).
- 5 adds the group to the transaction, in place of AddOffsetsToTxn (KIP-890).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Request, api_key=28, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    # -1 together with an empty member id is a producer that does not say which member it acts for.
    generation_id: int = int32("3+", default=-1, ignorable=False)
    member_id: str = string("3+", ignorable=False)
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=False)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
