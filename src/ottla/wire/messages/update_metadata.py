"""UpdateMetadata: the controller tells a broker what to answer in Metadata: live brokers, and the
state of partitions, its own and others'.

Kafka 4 has no such request; these are the versions of Kafka 3.9.

- Version 1 has several endpoints a broker, 2 its rack, 3 the names of its listeners.
- 4 lists the replicas that are offline.
- 5 fences by broker epoch (KIP-380) and names each topic once.
- 6 is flexible.
- 7 has topic ids (KIP-516).
- 8 may come from a KRaft controller (KIP-866).
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    OWN_TAGS,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4")
    partition_index: int = int32()
    controller_epoch: int = int32()
    # -1 none; -2 is a topic that is being deleted.
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32())
    zk_version: int = int32()
    replicas: list[int] = array(int32())
    offline_replicas: list[int] = array(int32(), "4+")
    # Ottla's own, for DescribeTopicPartitions (KIP-966).
    eligible_leader_replicas: list[int] = array(int32(), "6+", tag=OWN_TAGS)
    last_known_elr: list[int] = array(int32(), "6+", tag=OWN_TAGS + 1)


class UpdateMetadataTopicState(Struct):
    topic_name: str = string()
    topic_id: TopicId = uuid("7+")
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


class UpdateMetadataEndpoint(Struct):
    port: int = int32()
    host: str = string()
    listener: str = string("3+")
    security_protocol: int = int16()


class UpdateMetadataBroker(Struct):
    id: int = int32()
    v0_host: str = string("0")
    v0_port: int = int32("0")
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+")
    rack: str | None = string("2+", nullable="0+")
    # Ottla's own: a leader refuses fetches of a replica's earlier runs (KIP-903). Kafka 3.9 skips
    # tags that it does not know.
    epoch: int = int64("6+", tag=OWN_TAGS, default=-1)


class UpdateMetadataRequest(Request, api_key=6, versions="0-8", flexible="6+"):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+", ignorable=False)
    # 0 unknown, 1 some of the metadata, 2 all of it.
    type: int = int8("8+", tag=0, ignorable=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4", ignorable=False
    )
    topic_states: list[UpdateMetadataTopicState] = array(
        UpdateMetadataTopicState, "5+", ignorable=False
    )
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)
    # Ottla's own: a broker tells by it that a request was overtaken, on a connection which the
    # controller had given up.
    sequence: int = int64("6+", tag=OWN_TAGS, default=-1)


class UpdateMetadataResponse(Response, api_key=6, versions="0-8", flexible="6+"):
    error_code: int = int16()
