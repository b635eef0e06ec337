"""How a topic goes: marked in `/admin/delete_topics`, its replicas deleted, and its nodes last.

Clients hear at once that it does not exist. Its name stays taken until every replica has confirmed
that its log is gone, also those of brokers that are down: else a broker that comes back would serve
the old log under the new topic's name. A new controller finds the mark and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.controller import partition_state_machine, replica_state_machine
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import (
    LiveBroker,
    Replica,
    Topic,
    partitions_of,
    replicas_of,
)
from ottla.controller.partition_state_machine import PartitionState
from ottla.controller.replica_state_machine import ReplicaState
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.controller.active_controller import ActiveController

log = logging.getLogger(__name__)

_UNDER_WAY = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL)


async def begin(active: ActiveController, topic: Topic) -> None:
    plan = active.plan()
    plan.mark_for_deletion(topic.name)
    plan.requests.update_metadata(each for each, _ in partitions_of(topic))
    await active.commit(plan)
    await resume(active)


async def resume(active: ActiveController) -> None:
    """Does what can be done now for the topics that are to go."""
    context = active.context
    if not context.topics_to_delete:
        return
    plan = active.plan()
    for name in sorted(context.topics_to_delete):
        topic = context.topics.get(name)
        if topic is None:
            plan.forget_mark(name)  # A person marked what is not there, as Kafka allows.
        else:
            await _stop(plan, topic)
    await active.commit(plan)
    await _end_those_that_are_gone(active)


async def _stop(plan: ChangePlan, topic: Topic) -> None:
    async for each, _ in plan.slices.of(partitions_of(topic)):
        if plan.partition_state(each) is not PartitionState.OFFLINE:
            partition_state_machine.move(plan, each, PartitionState.OFFLINE)
    async for replica in plan.slices.of(_replicas(topic)):
        if plan.replica_state(replica) in _UNDER_WAY:
            continue
        replica_state_machine.move(plan, replica, ReplicaState.OFFLINE)
        if plan.context.is_online(replica.broker_id, replica.topic_partition):
            replica_state_machine.delete(plan, [replica])
        else:
            replica_state_machine.move(plan, replica, ReplicaState.DELETION_INELIGIBLE)


async def answered(
    active: ActiveController,
    broker: LiveBroker,
    asked: Collection[TopicPartition],
    failed: Mapping[TopicPartition, ErrorCode],
) -> None:
    """A broker says which of its replicas it has deleted."""
    if active.context.live_brokers.get(broker.id) != broker:
        return
    plan = active.plan()
    for each in asked:
        replica = Replica(each, broker.id)
        if plan.replica_state(replica) is not ReplicaState.DELETION_STARTED:
            continue  # Of a partition that moved away: nobody waits for it.
        if each in failed:
            log.warning(
                "broker %d could not delete its replica of %s (%s); it is asked again later",
                broker.id,
                each,
                failed[each].name,
            )
            replica_state_machine.move(plan, replica, ReplicaState.DELETION_INELIGIBLE)
        else:
            replica_state_machine.move(plan, replica, ReplicaState.DELETION_SUCCESSFUL)
    await active.commit(plan)
    await _end_those_that_are_gone(active)


async def _end_those_that_are_gone(active: ActiveController) -> None:
    context = active.context
    plan = active.plan()
    gone = [
        topic
        for name in sorted(context.topics_to_delete)
        if (topic := context.topics.get(name)) is not None
        and all(
            plan.replica_state(each) is ReplicaState.DELETION_SUCCESSFUL
            for each in _replicas(topic)
        )
    ]
    if not gone:
        return
    for topic in gone:
        for each, _ in partitions_of(topic):
            partition_state_machine.move(plan, each, PartitionState.NON_EXISTENT)
        for replica in _replicas(topic):
            replica_state_machine.move(plan, replica, ReplicaState.NON_EXISTENT)
        plan.delete_topic(topic)
    await active.commit(plan)
    for topic in gone:
        log.info("topic %s is deleted", topic.name)
        active.deletion_done(topic.name)


def holders(active: ActiveController, topic: Topic) -> list[int]:
    """The brokers that have not confirmed yet."""
    return sorted(
        {
            each.broker_id
            for each in _replicas(topic)
            if active.context.replica_states.get(each) is not ReplicaState.DELETION_SUCCESSFUL
        }
    )


def _replicas(topic: Topic) -> Iterator[Replica]:
    for topic_partition, assignment in partitions_of(topic):
        yield from replicas_of(topic_partition, assignment)
