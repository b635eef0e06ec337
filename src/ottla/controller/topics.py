"""Topics of a cluster come, grow and go, by requests to its controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ottla.controller import partition_state_machine, replica_state_machine, topic_deletion
from ottla.controller.active_controller import ActiveController
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import ControllerContext, Topic, partitions_of, replicas_of
from ottla.controller.partition_state_machine import PartitionState
from ottla.controller.reassignment import origin_of
from ottla.controller.replica_state_machine import ReplicaState
from ottla.controller.topic_names import TopicNames
from ottla.controller.topic_planning import NewTopic, TopicPlanner, plan_growth, unknown_topic
from ottla.coordination.znodes import ReplicaAssignment
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId, TopicPartition

T = TypeVar("T")

DELETION_TIMEOUT_S = 30.0


class RunEvent(Protocol):
    """Waits for the turn of an event, and for its end. Raises NOT_CONTROLLER."""

    async def __call__(self, event: Callable[[ActiveController], Awaitable[T]], /) -> T: ...


class CreatedTopic(NamedTuple):
    topic: Topic
    config: Mapping[str, str]


class Topics:
    """Owned by `ClusterController`. When a call returns, the controller's own broker has heard."""

    def __init__(self, run: RunEvent, planner: TopicPlanner) -> None:
        self._run = run
        self._planner = planner

    async def create(self, new: NewTopic) -> CreatedTopic:
        """Returns what was made. Raises KafkaError."""
        [created] = await self.create_all([new])
        if isinstance(created, KafkaError):
            raise created
        return created

    async def create_all(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic | KafkaError]:
        """In one event: of a thousand topics each broker hears by one request. Returns what was
        made, or with `validate_only` what would be, or why not, in the order asked for."""

        results: list[CreatedTopic | KafkaError] = []

        async def event(active: ActiveController) -> ActiveController | None:
            """Returns who has told of them. What is refused waits for nobody."""
            plan = active.plan()
            names, racks = TopicNames(active.context.topics), _racks(active.context)
            async for new in plan.slices.of(topics):
                try:
                    _check_not_being_deleted(active, new.name)
                    planned = self._planner.creation(new, names, racks)
                except KafkaError as error:
                    results.append(error)
                    continue
                names.add(planned.name)
                assignments = tuple(map(ReplicaAssignment, planned.replicas))
                topic = Topic(planned.name, planned.id, assignments)
                plan.put_topic(topic, planned.config)
                added = [each for each, _ in partitions_of(topic)]
                await _bring_online(plan, added, new.leader_epochs)
                results.append(CreatedTopic(topic, planned.config))
            if validate_only or all(isinstance(each, KafkaError) for each in results):
                return None
            await active.commit(plan)
            return active

        active = await self._run(event)
        if active is not None:
            await active.channels.delivered(active.broker_id)
        return results

    async def create_partitions(
        self,
        name: str,
        partition_count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Raises the number of partitions to `partition_count`. `assignments` places the new
        ones by hand, in their order."""

        async def event(active: ActiveController) -> tuple[ActiveController, Topic]:
            context = active.context
            old = _find(context, name)
            present = [origin_of(each) for each in old.partitions]
            replicas = plan_growth(name, present, partition_count, assignments, _racks(context))
            added = tuple(map(ReplicaAssignment, replicas))
            grown = old._replace(partitions=old.partitions + added)
            if not validate_only:
                plan = active.plan()
                plan.put_topic(grown)
                numbers = range(len(old.partitions), len(grown.partitions))
                await _bring_online(plan, [TopicPartition(name, each) for each in numbers], {})
                await active.commit(plan)
            return active, grown

        active, grown = await self._run(event)
        await active.channels.delivered(active.broker_id)
        return grown

    async def delete(self, topic: str | TopicId, *, timeout_s: float = DELETION_TIMEOUT_S) -> Topic:
        """By name or by id. Waits until all its replicas are gone, for so long; where one is on a
        broker that is down, that would be in vain."""

        async def event(
            active: ActiveController,
        ) -> tuple[ActiveController, Topic, asyncio.Future[None] | None]:
            found = _find(active.context, topic)
            deletion = active.deletion(found.name)
            await topic_deletion.begin(active, found)
            is_soon = all(
                active.context.is_online(broker_id, each)
                for each, assignment in partitions_of(found)
                for broker_id in assignment.replicas
            )
            return active, found, deletion if is_soon else None

        active, found, deletion = await self._run(event)
        await active.channels.delivered(active.broker_id)
        if deletion is not None:
            await asyncio.wait([deletion], timeout=timeout_s)
        return found


async def _bring_online(
    plan: ChangePlan, partitions: Iterable[TopicPartition], leader_epochs: Mapping[int, int]
) -> None:
    partitions = list(partitions)
    async for each in plan.slices.of(partitions):
        partition_state_machine.move(plan, each, PartitionState.NEW)
        for replica in replicas_of(each, plan.assignment(each)):
            replica_state_machine.move(plan, replica, ReplicaState.NEW)
    await partition_state_machine.initialize(plan, partitions, leader_epochs)
    async for each in plan.slices.of(partitions):
        for replica in replicas_of(each, plan.assignment(each)):
            replica_state_machine.move(plan, replica, ReplicaState.ONLINE)


def _find(context: ControllerContext, topic: str | TopicId) -> Topic:
    """Of one that is being deleted clients were told that it does not exist."""
    if isinstance(topic, str):
        found = context.topics.get(topic)
    else:
        found = context.topics_by_id.get(topic)
    if found is None or found.name in context.topics_to_delete:
        raise unknown_topic(topic)
    return found


def _check_not_being_deleted(active: ActiveController, name: str) -> None:
    topic = active.context.topics.get(name)
    if topic is not None and name in active.context.topics_to_delete:
        waiting = ", ".join(map(str, topic_deletion.holders(active, topic)))
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"Topic '{name}' is being deleted, and brokers {waiting} have yet to confirm it."
            " Try again later.",
        )


def _racks(context: ControllerContext) -> dict[int, str | None]:
    return {broker.id: broker.info.rack for broker in context.live_brokers.values()}
