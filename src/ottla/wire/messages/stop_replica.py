"""StopReplica: the controller has a broker stop replicas, and delete those that it says.

Kafka 4 has no such request; these are the versions of Kafka 3.9.

- Version 1 fences by broker epoch (KIP-380) and names each topic once.
- 2 is flexible.
- 3 fences by leader epoch, and says of each partition whether to delete it (KIP-570).
- 4 may come from a KRaft controller (KIP-866).
"""

from __future__ import annotations

from ottla.wire.schema import (
    OWN_TAGS,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class StopReplicaPartitionV0(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class StopReplicaTopicV1(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class StopReplicaPartitionState(Struct):
    partition_index: int = int32()
    # -1 unknown, -2 of a topic that is being deleted: then it is not checked.
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


class StopReplicaTopicState(Struct):
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


class StopReplicaRequest(Request, api_key=5, versions="0-4", flexible="2+"):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+", ignorable=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1)
    delete_partitions: bool = boolean("0-2", ignorable=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(
        StopReplicaPartitionV0, "0", ignorable=False
    )
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2", ignorable=False)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+", ignorable=False)
    # Ottla's own: a broker tells by it that a request was overtaken, on a connection which the
    # controller had given up.
    sequence: int = int64("2+", tag=OWN_TAGS, default=-1)


class StopReplicaPartitionError(Struct):
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


class StopReplicaResponse(Response, api_key=5, versions="0-4", flexible="2+"):
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
