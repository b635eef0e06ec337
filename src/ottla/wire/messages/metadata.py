"""Metadata: brokers, controller, topics and their partitions' leaders and replicas.

- Version 0 asks for all topics by an empty list; from 1 on that is null, and empty means none.
- 4 lets the client say whether asking may create a topic.
- 8 to 10 can ask for authorized operations on the cluster; DescribeCluster has them since
  (KIP-700). Those on topics stay.
- 9 is flexible.
- 10 carries topic ids, but only from 12 on may a topic be asked for by its id alone.
- 13 has an error code for the whole response.
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string, uuid


class MetadataRequestTopic(Struct):
    topic_id: TopicId = uuid("10+")
    name: str | None = string(nullable="10+")


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    # Null asks for all topics; in version 0 an empty list does.
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True, ignorable=False)
    include_cluster_authorized_operations: bool = boolean("8-10", ignorable=False)
    include_topic_authorized_operations: bool = boolean("8+", ignorable=False)


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(int32())
    isr_nodes: list[int] = array(int32())
    offline_replicas: list[int] = array(int32(), "5+")


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    # Null for a topic that was asked for by an id that nobody knows.
    name: str | None = string(nullable="12+")
    topic_id: TopicId = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    # Bits, one an operation; the smallest integer means that they were not asked for.
    topic_authorized_operations: int = int32("8+", default=-0x8000_0000)


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-0x8000_0000)
    error_code: int = int16("13+")
