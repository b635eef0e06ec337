"""What a replica goes through:

    NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ DELETION_STARTED ──▶ DELETION_SUCCESSFUL
                      └────────────────▶ ▲  │                │                    │
                                         │  ▼                ▼                    ▼
                                DELETION_INELIGIBLE ◀────────┘              NON_EXISTENT

A replica whose broker is down cannot be deleted now: it is ineligible until the broker is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.controller.change_plan import ChangePlan
    from ottla.controller.controller_context import Replica


class ReplicaState(Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


_IN_USE = frozenset(
    {
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    }
)

PREVIOUS_STATES: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _IN_USE,
    ReplicaState.OFFLINE: _IN_USE,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset(
        {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}
    ),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}
"""By state, those that it can be reached from."""


def move(plan: ChangePlan, replica: Replica, target: ReplicaState) -> None:
    current = plan.replica_state(replica)
    assert current in PREVIOUS_STATES[target], (
        f"the replica of {replica.topic_partition} on {replica.broker_id} is {current.value},"
        f" and cannot become {target.value}"
    )
    plan.set_replica_state(replica, target)


async def bring_online(plan: ChangePlan, replicas: Iterable[Replica]) -> None:
    """Tells their brokers whom to lead and whom to follow, where there is somebody to follow."""
    async for replica in plan.slices.of(replicas):
        move(plan, replica, ReplicaState.ONLINE)
        if plan.state(replica.topic_partition) is not None:
            plan.requests.lead_or_follow([replica.broker_id], replica.topic_partition)


async def take_offline(plan: ChangePlan, replicas: Iterable[Replica]) -> None:
    """They stop, and leave the ISR. Their partitions get a new leader epoch: what a removed replica
    may still send does not count any more."""
    removed: dict[TopicPartition, set[int]] = {}
    async for replica in plan.slices.of(replicas):
        move(plan, replica, ReplicaState.OFFLINE)
        plan.requests.stop([replica.broker_id], replica.topic_partition, delete=False)
        removed.setdefault(replica.topic_partition, set()).add(replica.broker_id)
    async for topic_partition, brokers in plan.slices.of(removed.items()):
        state = plan.state(topic_partition)
        if state is None:
            continue
        remaining = without(plan, topic_partition, state, brokers)
        if remaining != state:
            plan.set_state(topic_partition, remaining)
            plan.tell_replicas(topic_partition, except_for=brokers)
        else:
            plan.requests.update_metadata([topic_partition])


def without(
    plan: ChangePlan, topic_partition: TopicPartition, state: LeaderAndIsr, brokers: set[int]
) -> LeaderAndIsr:
    """The state when these are gone. While nobody else of the ISR is left, they stay in it: nothing
    is committed without a leader, so each of them still has everything."""
    staying = tuple(each for each in state.isr if each not in brokers)
    is_led = state.leader not in brokers and state.leader >= 0
    isr = staying or state.isr
    if isr == state.isr and (is_led or state.leader < 0):
        return state
    return state._replace(
        leader=state.leader if is_led else -1,
        leader_epoch=state.leader_epoch + 1,
        isr=isr,
        controller_epoch=plan.context.controller_epoch,
        eligible_leader_replicas=plan.eligible(topic_partition, state, isr),
    )


def delete(plan: ChangePlan, replicas: Iterable[Replica]) -> None:
    """Their brokers are told to delete them, and will answer."""
    for replica in replicas:
        move(plan, replica, ReplicaState.DELETION_STARTED)
        plan.requests.stop([replica.broker_id], replica.topic_partition, delete=True)


def forget(plan: ChangePlan, replicas: Iterable[Replica]) -> None:
    """Those that are no longer assigned, once their brokers were told to delete them."""
    for replica in replicas:
        move(plan, replica, ReplicaState.DELETION_SUCCESSFUL)
        move(plan, replica, ReplicaState.NON_EXISTENT)
