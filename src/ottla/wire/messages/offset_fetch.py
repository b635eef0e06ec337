"""OffsetFetch: how far groups have read.

Version 0 went with Kafka 4: it read from ZooKeeper.

- Version 2 asks for everything by null in place of topics, and has an error for all of it.
- 5 answers with leader epochs (KIP-320).
- 6 is flexible.
- 7 can refuse to answer while a transaction's commit is under way (KIP-447).
- 8 asks for many groups at once, in a list of its own (KIP-709).
- 9 is fenced for members of the newer protocol (KIP-848).
- 10 has topic ids in place of names.
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetFetchRequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9")
    topic_id: TopicId = uuid("10+")
    partition_indexes: list[int] = array(int32())


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    # Null asks for all topics.
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="8+")


class OffsetFetchRequest(Request, api_key=9, versions="1-10", flexible="6+"):
    # Up to version 7 the one group stands here, later in the list.
    group_id: str = string("1-7", ignorable=False)
    # Null asks for all topics.
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "1-7", nullable="2-7", ignorable=False
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", ignorable=False)
    require_stable: bool = boolean("7+", ignorable=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32()
    # -1 where nothing is committed.
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string(nullable="1-7")
    error_code: int = int16()


class OffsetFetchResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    # -1 where nothing is committed.
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="8+")
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9")
    topic_id: TopicId = uuid("10+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


class OffsetFetchResponse(Response, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+")
    # Up to version 7 the one group stands here, later in the list.
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "1-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
