"""GetReplicaLogInfo: where the logs of a broker end, which the controller asks before it elects one
of several replicas that may all have lost records (KIP-966). Kafka has declared it after 4.3."""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, uuid


class TopicPartitions(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32())


class GetReplicaLogInfoRequest(Request, api_key=93, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")


class PartitionLogInfo(Struct):
    partition: int = int32()
    # The leader epoch of the last records of the log.
    last_written_leader_epoch: int = int32()
    # The one that the partition is in now, as far as the broker has heard.
    current_leader_epoch: int = int32()
    log_end_offset: int = int64()
    error_code: int = int16()


class TopicPartitionLogInfo(Struct):
    topic_id: TopicId = uuid()
    partition_log_info: list[PartitionLogInfo] = array(PartitionLogInfo)


class GetReplicaLogInfoResponse(Response, api_key=93, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    broker_epoch: int = int64()
    # Whether it leaves out partitions: it has the first 1,000 of those asked for.
    truncated: bool = boolean()
    topic_partition_log_info_list: list[TopicPartitionLogInfo] = array(TopicPartitionLogInfo)
