"""Brokers come and go: who leads and who is in sync afterwards.

A broker that comes back under another registration has gone and come, however short that was: it
may have lost what it had not written to disk. So has one whose registration no controller has acted
on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.controller import partition_state_machine, replica_state_machine
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import ControllerContext, LiveBroker, Replica, replicas_of
from ottla.controller.leader_selectors import Candidates, Elected, offline
from ottla.controller.partition_state_machine import PartitionState
from ottla.controller.replica_state_machine import ReplicaState
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.slices import Slices


async def set_first_states(context: ControllerContext, slices: Slices) -> None:
    """Of a context that was just loaded: what is there, is where it must be by now."""
    async for topic_partition, assignment in slices.of(context.partitions()):
        committed = context.committed.get(topic_partition)
        if committed is None:
            state = PartitionState.NEW
        elif context.is_online(committed.state.leader, topic_partition):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.partition_states[topic_partition] = state
        for replica in replicas_of(topic_partition, assignment):
            is_online = context.is_online(replica.broker_id, topic_partition)
            context.replica_states[replica] = (
                ReplicaState.ONLINE if is_online else ReplicaState.OFFLINE
            )


async def plan_failure(plan: ChangePlan, brokers: Collection[BrokerId]) -> None:
    """The context does not count them as alive any more."""
    await plan_loss(plan, plan.context.replicas_on(brokers))


async def plan_loss(plan: ChangePlan, replicas: Iterable[Replica]) -> None:
    """These cannot be used any more, with their brokers or with their disks. Others take over from
    them, where there are any."""
    kept: list[Replica] = []
    going: list[Replica] = []
    async for replica in plan.slices.of(replicas):
        is_going = replica.topic_partition.topic in plan.context.topics_to_delete
        (going if is_going else kept).append(replica)
    async for replica in plan.slices.of(kept):
        state = plan.state(replica.topic_partition)
        if state is not None and state.leader == replica.broker_id:
            partition_state_machine.move(plan, replica.topic_partition, PartitionState.OFFLINE)
    await plan_elections(plan)
    await replica_state_machine.take_offline(plan, kept)
    for replica in going:
        if plan.replica_state(replica) is ReplicaState.DELETION_STARTED:
            replica_state_machine.move(plan, replica, ReplicaState.DELETION_INELIGIBLE)


async def plan_start(plan: ChangePlan, brokers: Collection[LiveBroker]) -> None:
    """The context counts them as alive. They hear of everything, and all others of them."""
    ids = {broker.id for broker in brokers}
    deleted = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL)
    await replica_state_machine.bring_online(
        plan,
        (each for each in plan.context.replicas_on(ids) if plan.replica_state(each) not in deleted),
    )
    await plan_elections(plan)
    for broker in brokers:
        plan.accept(broker.id, broker.epoch)
    plan.requests.tell_all(ids)
    plan.requests.update_metadata()


async def plan_elections(plan: ChangePlan, topic: str | None = None) -> None:
    """A leader for each partition without one, of this topic or of all, where there can be one."""
    new, without_leader = [], []
    async for each, _ in plan.slices.of(plan.context.partitions()):
        if each.topic in plan.context.topics_to_delete or topic not in (None, each.topic):
            continue
        match plan.partition_state(each):
            case PartitionState.NEW:
                new.append(each)
            case PartitionState.OFFLINE:
                without_leader.append(each)
    await partition_state_machine.initialize(plan, new)

    def select(each: TopicPartition, candidates: Candidates) -> Elected | None:
        config = plan.context.topic_config(each.topic)
        return offline(candidates, allows_unclean=config.unclean_leader_election_enable)

    await partition_state_machine.elect(plan, without_leader, select)
