"""Produce: record batches to append.

Versions 0 to 2 carried older message formats and went with Kafka 4. They are still listed to
clients, else librdkafka falls back to no compression (KAFKA-18659), but not decoded.

- Version 3 brought record batches of magic 2, and transactional ids.
- 5 tells the log start offset, so that a producer can tell deleted records from lost ones.
- 7 allows zstd (KIP-110).
- 8 names the records that made a batch fail (KIP-467).
- 9 is flexible.
- 10 points to the new leader when this broker is not it any more (KIP-951).
- 11 may answer TRANSACTION_ABORTABLE; 12 adds partitions to a transaction by itself (KIP-890).
- 13 has topic ids in place of names (KIP-516).
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)


class PartitionProduceData(Struct):
    index: int = int32()
    records: memoryview | None = records(nullable="3+")


class TopicProduceData(Struct):
    name: str = string("3-12")
    topic_id: TopicId = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(nullable="3+", default=None)
    # -1 for all in-sync replicas, 1 for the leader, 0 for no response at all.
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="8+", default=None)


class LeaderIdAndEpoch(Struct, frozen=True):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    # -1 unless the topic stamps records itself (message.timestamp.type=LogAppendTime).
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("3-12")
    topic_id: TopicId = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="10+", default=None)


class ProduceResponse(Response, api_key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
