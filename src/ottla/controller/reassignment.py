"""Partitions move to other replicas (KIP-455).

    replicas (1, 2)                          before
    replicas (3, 2, 1)  adding 3, removing 1   while 3 catches up: the target first, then the rest
    replicas (3, 2)                          once all of the target are in sync

Each step is stored before it is acted on, so a new controller goes on from there. Who is removed is
told to delete its log before the last step: it must not be forgotten with a log that nobody knows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.controller import partition_state_machine, replica_state_machine
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import ControllerContext, Replica
from ottla.controller.leader_selectors import Candidates, Elected, reassigned
from ottla.controller.replica_state_machine import ReplicaState
from ottla.coordination import znodes
from ottla.coordination.store import Delete, NoNode
from ottla.coordination.znodes import ReplicaAssignment
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.controller.active_controller import ActiveController

log = logging.getLogger(__name__)

Results = dict[TopicPartition, KafkaError | None]
"""None: it has begun, or is cancelled."""


def origin_of(assignment: ReplicaAssignment) -> tuple[int, ...]:
    return tuple(each for each in assignment.replicas if each not in assignment.adding_replicas)


def target_of(assignment: ReplicaAssignment) -> tuple[int, ...]:
    return tuple(each for each in assignment.replicas if each not in assignment.removing_replicas)


def moving(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """The assignment while it goes from where it was to the target."""
    origin = origin_of(assignment)
    replicas = tuple(dict.fromkeys([*target, *origin]))
    return ReplicaAssignment(
        replicas,
        adding_replicas=tuple(each for each in replicas if each not in origin),
        removing_replicas=tuple(each for each in replicas if each not in target),
    )


async def begin(
    active: ActiveController,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allows_factor_change: bool = True,
) -> Results:
    """None instead of replicas cancels: back to where it was."""
    plan = active.plan()
    results: Results = {}
    async for each, target in plan.slices.of(wanted.items()):
        try:
            await _plan_beginning(plan, each, target, allows_factor_change)
            results[each] = None
        except KafkaError as error:
            results[each] = error
    await active.commit(plan)
    await complete(active, [each for each, error in results.items() if error is None])
    return results


async def _plan_beginning(
    plan: ChangePlan,
    topic_partition: TopicPartition,
    target: Sequence[int] | None,
    allows_factor_change: bool,
) -> None:
    from ottla.controller.topic_planning import check_assignment  # No start needs it.

    context = plan.context
    current = context.assignment(topic_partition)
    if current is None or topic_partition.topic in context.topics_to_delete:
        topic, number = topic_partition
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {topic}:{number}."
            if context.has_topic(topic)
            else f"Unable to find a topic named {topic}.",
        )
    if target is None:
        if not context.is_reassigned(topic_partition):
            raise KafkaError(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                f"No partition reassignment is in progress: {topic_partition} is not being moved.",
            )
        target, allows_factor_change = origin_of(current), True
    # Those that have it already may be stopped at the moment.
    check_assignment(target, None, {*context.live_brokers, *current.replicas})
    factor = len(target_of(current))
    if len(target) != factor and not allows_factor_change:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )
    following = moving(current, target)
    state = plan.state(topic_partition)
    if state is None:
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE,
            f"{topic_partition} has never had a leader. Start one of brokers"
            f" {', '.join(map(str, current.replicas))} first.",
        )
    if following == current:
        return
    await _drop(plan, topic_partition, current, following)
    plan.assign(topic_partition, following)
    plan.set_state(topic_partition, _next_epoch(plan, topic_partition))
    plan.tell_replicas(topic_partition)
    added = [each for each in following.replicas if each not in current.replicas]
    for replica in _replicas(topic_partition, added):
        replica_state_machine.move(plan, replica, ReplicaState.NEW)
        replica_state_machine.move(plan, replica, ReplicaState.ONLINE)
        plan.requests.lead_or_follow([replica.broker_id], topic_partition, is_new=True)


async def _drop(
    plan: ChangePlan,
    topic_partition: TopicPartition,
    current: ReplicaAssignment,
    following: ReplicaAssignment,
) -> None:
    """Those that an earlier reassignment was adding, and that are not wanted any more."""
    staying = [each for each in current.replicas if each in following.replicas]
    dropped = _replicas(topic_partition, set(current.replicas).difference(staying))
    if not dropped:
        return
    # One of those who stay must have all that was committed, also where it leads already.
    candidates = partition_state_machine.candidates(plan, topic_partition)
    if reassigned(candidates, target=staying) is None:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"{topic_partition} cannot go back: none of brokers {', '.join(map(str, staying))} is"
            " alive and in sync.",
        )
    if candidates.state.leader not in staying:
        await partition_state_machine.elect(
            plan, [topic_partition], lambda _, each: reassigned(each, target=staying)
        )
    await _remove(plan, topic_partition, dropped)
    replica_state_machine.forget(plan, dropped)


async def complete(
    active: ActiveController, partitions: Iterable[TopicPartition] | None = None
) -> None:
    """Ends the reassignments whose targets are all in sync: of these partitions, or of all."""
    context = active.context
    if partitions is None:
        partitions = [each for each, _ in context.partitions()]
    ready = [each for each in partitions if _is_ready(context, each)]
    if ready:
        plan = active.plan()
        await _plan_handover(plan, ready)
        await active.commit(plan)
        plan = active.plan()
        _plan_end(plan, ready)
        await active.commit(plan)
        log.info("moved to other replicas: %s", ", ".join(map(str, ready)))
    await _end_asked_by_node(active)


def _is_ready(context: ControllerContext, topic_partition: TopicPartition) -> bool:
    assignment = context.assignment(topic_partition)
    committed = context.committed.get(topic_partition)
    return (
        assignment is not None
        and committed is not None
        and context.is_reassigned(topic_partition)
        and topic_partition.topic not in context.topics_to_delete
        and set(target_of(assignment)) <= set(committed.state.isr)
        and any(context.is_online(each, topic_partition) for each in target_of(assignment))
    )


async def _plan_handover(plan: ChangePlan, partitions: Collection[TopicPartition]) -> None:
    """One of the target leads, and who is removed leaves the ISR and deletes its log."""

    def select(each: TopicPartition, candidates: Candidates) -> Elected | None:
        return reassigned(candidates, target=target_of(plan.assignment(each)))

    misled = []
    for each in partitions:
        state = plan.state(each)
        assert state is not None
        leader = state.leader
        if leader not in target_of(plan.assignment(each)) or not plan.context.is_online(
            leader, each
        ):
            misled.append(each)
    failed = await partition_state_machine.elect(plan, misled, select)
    assert not failed, f"one of the target is alive and in sync: {failed}"
    for each in partitions:
        removed = _replicas(each, plan.assignment(each).removing_replicas)
        await _remove(plan, each, removed)


async def _remove(
    plan: ChangePlan, topic_partition: TopicPartition, removed: Collection[Replica]
) -> None:
    """They leave the ISR and delete their logs. Who has no log is not eligible, either: not while
    it is still assigned, and not when it is assigned again."""
    await replica_state_machine.take_offline(plan, removed)
    brokers = {each.broker_id for each in removed}
    state = plan.state(topic_partition)
    assert state is not None
    if brokers.intersection(state.eligible_leader_replicas):
        staying = tuple(each for each in state.eligible_leader_replicas if each not in brokers)
        plan.set_state(topic_partition, state._replace(eligible_leader_replicas=staying))
        plan.tell_replicas(topic_partition, except_for=brokers)
    replica_state_machine.delete(plan, removed)


def _plan_end(plan: ChangePlan, partitions: Collection[TopicPartition]) -> None:
    for each in partitions:
        assignment = plan.assignment(each)
        replica_state_machine.forget(plan, _replicas(each, assignment.removing_replicas))
        plan.assign(each, ReplicaAssignment(target_of(assignment)))
        plan.set_state(each, _next_epoch(plan, each))
        plan.tell_replicas(each)


def _next_epoch(plan: ChangePlan, topic_partition: TopicPartition) -> znodes.LeaderAndIsr:
    """The leader takes the new replicas only in a new leader epoch."""
    state = plan.state(topic_partition)
    assert state is not None
    return state._replace(
        leader_epoch=state.leader_epoch + 1, controller_epoch=plan.context.controller_epoch
    )


def _replicas(topic_partition: TopicPartition, brokers: Iterable[int]) -> list[Replica]:
    return [Replica(topic_partition, BrokerId(each)) for each in sorted(brokers)]


# -- asked for by the node /admin/reassign_partitions ------------------------------------


async def look_at_node(active: ActiveController) -> None:
    """Kafka's way before there was a request for it. The node goes when all in it are done."""
    try:
        node = await active.store.get(znodes.REASSIGN_PARTITIONS)
    except NoNode:
        active.reassigned_by_node = None
        return
    wanted: dict[tuple[str, int], tuple[int, ...]] = {}
    try:
        wanted = znodes.decode_reassignment(node.data)
    except znodes.BadZnode as error:
        log.error("%s; it is deleted", error)
    active.reassigned_by_node = {TopicPartition(*each) for each in wanted}
    context = active.context
    fresh = {}
    for (topic, partition), target in wanted.items():
        assignment = context.assignment(TopicPartition(topic, partition))
        if assignment is None or target_of(assignment) != target:
            fresh[TopicPartition(topic, partition)] = target
    for each, problem in (await begin(active, fresh)).items():
        if problem is not None:
            log.error("%s asks to move %s: %s", znodes.REASSIGN_PARTITIONS, each, problem.message)


async def _end_asked_by_node(active: ActiveController) -> None:
    asked = active.reassigned_by_node
    if asked is None or any(map(active.context.is_reassigned, asked)):
        return
    plan = active.plan()
    plan.write(Delete(znodes.REASSIGN_PARTITIONS))
    await active.commit(plan)
    active.reassigned_by_node = None
