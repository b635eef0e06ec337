"""AlterPartition: the leader of partitions asks the controller to change their ISR (KIP-497).

- Version 1 ends a recovery from an unclean election (KIP-704).
- 2 has topic ids instead of names (KIP-841).
- 3 has the epoch of every broker in the ISR (KIP-903).

Versions 0 and 1 went with Kafka 4.
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class BrokerState(Struct):
    broker_id: int = int32()
    # -1 is not checked.
    broker_epoch: int = int64(default=-1)


class PartitionData(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32(), "0-2", ignorable=False)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+", ignorable=False)
    # As in LeaderAndIsr.
    leader_recovery_state: int = int8("1+", ignorable=False)
    # The one that the leader knows; another is refused.
    partition_epoch: int = int32()


class TopicData(Struct):
    topic_name: str = string("0-1")
    topic_id: TopicId = uuid("2+")
    partitions: list[PartitionData] = array(PartitionData)


class AlterPartitionRequest(Request, api_key=56, versions="0-3", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicData] = array(TopicData)


class PartitionDataResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32())
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


class TopicDataResult(Struct):
    topic_name: str = string("0-1")
    topic_id: TopicId = uuid("2+")
    partitions: list[PartitionDataResult] = array(PartitionDataResult)


class AlterPartitionResponse(Response, api_key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicDataResult] = array(TopicDataResult)
