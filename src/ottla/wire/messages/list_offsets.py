"""ListOffsets: the offset for a timestamp, or for a mark such as earliest and latest.

- Version 1 is the first with one offset a partition, and its timestamp.
- 2 has isolation levels: with READ_COMMITTED the latest offset is the last stable one.
- 4 fences by leader epoch (KIP-320).
- 6 is flexible.
- 7 knows the timestamp -3, the record with the largest timestamp (KIP-734).
- 8, 9 and 11 know -4, -5 and -6, which are about tiered storage (KIP-405, 1005, 1023).
- 10 has a time-out, for the same (KIP-1075).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    # Below zero it is a mark: -1 latest, -2 earliest, -3 largest timestamp.
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+"):
    # -1 is a consumer.
    replica_id: int = int32()
    isolation_level: int = int8("2+", ignorable=False)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
