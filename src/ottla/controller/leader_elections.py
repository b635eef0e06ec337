"""Elections that somebody asks for: back to the preferred replica, or to any that is alive; and the
first kind by itself, where too many leaders are not the preferred ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import IntEnum

from ottla.controller import partition_state_machine
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import ControllerContext
from ottla.controller.leader_selectors import Candidates, Elected, offline, preferred
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition


class ElectionType(IntEnum):
    """As ElectLeaders numbers them."""

    PREFERRED = 0
    UNCLEAN = 1


Results = dict[TopicPartition, KafkaError | None]
"""None: a leader was elected."""


async def plan_elections(
    plan: ChangePlan, kind: ElectionType, partitions: Iterable[TopicPartition]
) -> Results:
    context = plan.context
    results: Results = {}
    needed = []
    async for each in plan.slices.of(partitions):
        results[each] = problem = _problem(context, kind, each)
        if problem is None:
            needed.append(each)

    def select(each: TopicPartition, candidates: Candidates) -> Elected | None:
        if kind is ElectionType.PREFERRED:
            return preferred(candidates)
        return offline(candidates, allows_unclean=True)

    for each in await partition_state_machine.elect(plan, needed, select):
        results[each] = _failure(context, kind, each)
    return results


def _problem(
    context: ControllerContext, kind: ElectionType, topic_partition: TopicPartition
) -> KafkaError | None:
    assignment = context.assignment(topic_partition)
    committed = context.committed.get(topic_partition)
    if assignment is None or topic_partition.topic in context.topics_to_delete:
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"No such partition as {topic_partition}"
            if context.has_topic(topic_partition.topic)
            else f"No such topic as {topic_partition.topic}",
        )
    if committed is None:
        return _failure(context, kind, topic_partition)
    leader = committed.state.leader
    if kind is ElectionType.PREFERRED:
        is_needed = leader != assignment.replicas[0]
    else:
        is_needed = not context.is_online(leader, topic_partition)
    if is_needed:
        return None
    return KafkaError(
        ErrorCode.ELECTION_NOT_NEEDED,
        f"Leader election not needed for topic partition. Broker {leader} leads {topic_partition}.",
    )


def _failure(
    context: ControllerContext, kind: ElectionType, topic_partition: TopicPartition
) -> KafkaError:
    assignment = context.assignment(topic_partition)
    assert assignment is not None
    if kind is ElectionType.PREFERRED:
        return KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {assignment.replicas[0]}, the preferred replica of {topic_partition}, is not"
            " alive or not in sync.",
        )
    return KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"None of brokers {', '.join(map(str, assignment.replicas))} is alive, which have replicas"
        f" of {topic_partition}.",
    )


def imbalanced(context: ControllerContext, percentage_max: int) -> list[TopicPartition]:
    """Partitions to give back to their preferred replicas: those of brokers that do not lead more
    than this share of what they are preferred for."""
    counts: dict[int, int] = defaultdict(int)
    elsewhere: dict[int, list[TopicPartition]] = defaultdict(list)
    for each, broker_id, leader in _preferred_and_actual(context):
        counts[broker_id] += 1
        if leader != broker_id:
            elsewhere[broker_id].append(each)
    return [
        each
        for broker_id, partitions in sorted(elsewhere.items())
        if len(partitions) * 100 > percentage_max * counts[broker_id]
        for each in partitions
        if broker_id not in context.shutting_down
        and broker_id in context.committed[each].state.isr
        and context.is_online(broker_id, each)
        and not context.is_reassigned(each)
    ]


def _preferred_and_actual(
    context: ControllerContext,
) -> Iterator[tuple[TopicPartition, BrokerId, int]]:
    for each, assignment in context.partitions():
        committed = context.committed.get(each)
        if committed is not None and each.topic not in context.topics_to_delete:
            yield each, BrokerId(assignment.replicas[0]), committed.state.leader
