"""ElectLeaders: makes the preferred replica of partitions their leader, or any that is alive.

- Version 1 has unclean elections, and an error of the whole request (KIP-460).
- 2 is flexible.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+"):
    # 0 preferred, 1 unclean: without any replica in sync, the first that is alive.
    election_type: int = int8("1+", ignorable=False)
    # Null for all partitions.
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60_000)


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+", ignorable=False)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
