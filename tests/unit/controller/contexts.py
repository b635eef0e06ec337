"""A controller's context without a store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ottla.config.topic import TopicConfig
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import (
    CommittedState,
    Config,
    ControllerContext,
    LiveBroker,
    Replica,
    Topic,
)
from ottla.controller.partition_state_machine import PartitionState
from ottla.controller.replica_state_machine import ReplicaState
from ottla.coordination.znodes import BrokerInfo, Endpoint, LeaderAndIsr, ReplicaAssignment
from ottla.kernel.clock import SystemClock
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.kernel.slices import Slices

T = TypeVar("T")

P0 = TopicPartition("t", 0)
TOPIC_ID = TopicId(b"the id of topic " + b"t")[:16]
SLICES = Slices(SystemClock())
EPOCH = 7
"""Of the controller."""


def resolve(config: Config) -> TopicConfig:
    return TopicConfig(
        min_insync_replicas=int(config.get("min.insync.replicas", "1")),
        unclean_leader_election_enable=config.get("unclean.leader.election.enable") == "true",
    )


def live_broker(broker_id: int, epoch: int | None = None, rack: str | None = None) -> LiveBroker:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", f"host-{broker_id}", 9092)
    info = BrokerInfo((endpoint,), rack)
    return LiveBroker(BrokerId(broker_id), 100 + broker_id if epoch is None else epoch, info)


def make_context(
    live: Sequence[int] = (1, 2, 3),
    replicas: Sequence[int] = (1, 2, 3),
    *,
    isr: Sequence[int] | None = None,
    leader: int = 1,
    config: Mapping[str, str] | None = None,
    eligible: Sequence[int] = (),
    partition_count: int = 1,
) -> ControllerContext:
    """With one topic, `t`. Its leader epoch is 5 and its partition epoch 9."""
    context = ControllerContext(EPOCH, resolve)
    context.live_brokers = {BrokerId(each): live_broker(each) for each in live}
    context.accepted_epochs = {each.id: each.epoch for each in context.live_brokers.values()}
    assignment = ReplicaAssignment(tuple(replicas))
    context.put_topic(Topic("t", TopicId(TOPIC_ID), (assignment,) * partition_count, version=2))
    context.topic_configs["t"] = dict(config or {})
    state = LeaderAndIsr(
        leader,
        5,
        tuple(replicas if isr is None else isr),
        EPOCH - 1,
        eligible_leader_replicas=tuple(eligible),
    )
    for number in range(partition_count):
        each = TopicPartition("t", number)
        context.committed[each] = CommittedState(state, 9)
        context.partition_states[each] = (
            PartitionState.ONLINE if leader in live else PartitionState.OFFLINE
        )
        for broker_id in replicas:
            context.replica_states[Replica(each, BrokerId(broker_id))] = (
                ReplicaState.ONLINE if broker_id in live else ReplicaState.OFFLINE
            )
    return context


def make_plan(context: ControllerContext) -> ChangePlan:
    return ChangePlan(context, SystemClock())


def on(*brokers: int, partition: TopicPartition = P0) -> list[Replica]:
    return [Replica(partition, BrokerId(each)) for each in brokers]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
