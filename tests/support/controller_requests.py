"""What a controller says about partitions, in a few words."""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

TOPIC_ID = TopicId(b"i" * 16)


def state_of(
    number: int = 0,
    leader: int = 1,
    leader_epoch: int = 1,
    *,
    isr: tuple[int, ...] = (1, 2),
    replicas: tuple[int, ...] = (1, 2),
    partition_epoch: int = 0,
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=number,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(isr),
        replicas=list(replicas),
        partition_epoch=partition_epoch,
        is_new=True,
    )


def leader_and_isr(
    *states: LeaderAndIsrPartitionState,
    broker_epoch: int,
    controller_epoch: int = 1,
    topic: str = "t",
    topic_id: TopicId = TOPIC_ID,
    kind: int = 1,
) -> LeaderAndIsrRequest:
    topic_state = LeaderAndIsrTopicState(
        topic_name=topic, topic_id=topic_id, partition_states=list(states)
    )
    return LeaderAndIsrRequest(
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        type=kind,
        topic_states=[topic_state],
    )


def stop_replica(
    number: int = 0,
    *,
    broker_epoch: int,
    leader_epoch: int = 1,
    topic: str = "t",
    delete: bool = False,
) -> StopReplicaRequest:
    state = StopReplicaPartitionState(
        partition_index=number, leader_epoch=leader_epoch, delete_partition=delete
    )
    return StopReplicaRequest(
        controller_epoch=1,
        broker_epoch=broker_epoch,
        topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=[state])],
    )
