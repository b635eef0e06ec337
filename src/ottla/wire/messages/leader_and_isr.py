"""LeaderAndIsr: the controller tells a broker which of its partitions it leads, and whom it follows
in the others.

Kafka 4 has no such request; these are the versions of Kafka 3.9.

- Version 1 marks replicas that are new.
- 2 fences by broker epoch (KIP-380) and names each topic once.
- 3 tells of a reassignment (KIP-455).
- 4 is flexible.
- 5 has topic ids, and tells a request of all partitions from one of some (KIP-516).
- 6 tells of a recovery from an unclean election (KIP-704).
- 7 may come from a KRaft controller (KIP-866).
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


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32())
    # The version of the partition's znode.
    partition_epoch: int = int32()
    replicas: list[int] = array(int32())
    adding_replicas: list[int] = array(int32(), "3+")
    removing_replicas: list[int] = array(int32(), "3+")
    is_new: bool = boolean("1+")
    # 1 after an unclean election, until the leader has recovered.
    leader_recovery_state: int = int8("6+", ignorable=False)


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string()
    topic_id: TopicId = uuid("5+")
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


class LeaderAndIsrRequest(Request, api_key=4, versions="0-7", flexible="4+"):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+", ignorable=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1)
    # 0 unknown, 1 some of the partitions, 2 all that the broker has.
    type: int = int8("5+", ignorable=False)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1", ignorable=False
    )
    topic_states: list[LeaderAndIsrTopicState] = array(
        LeaderAndIsrTopicState, "2+", ignorable=False
    )
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)
    # Ottla's own: a broker tells by it that a request was overtaken, on a connection which the
    # controller had given up.
    sequence: int = int64("4+", tag=OWN_TAGS, default=-1)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4")
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    topic_id: TopicId = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


class LeaderAndIsrResponse(Response, api_key=4, versions="0-7", flexible="4+"):
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(
        LeaderAndIsrPartitionError, "0-4", ignorable=False
    )
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+", ignorable=False)
