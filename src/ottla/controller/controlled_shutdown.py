"""ControlledShutdown: a broker that is about to stop hands its leaderships over first, and leaves
the ISR of what it follows. So nobody waits for it when it is gone."""

from __future__ import annotations

from ottla.controller import partition_state_machine, replica_state_machine
from ottla.controller.alter_partition import check_broker_epoch
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import ControllerContext, Replica
from ottla.controller.leader_selectors import Candidates, Elected, controlled_shutdown
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


async def plan_shutdown(plan: ChangePlan, request: ControlledShutdownRequest) -> None:
    context = plan.context
    broker_id = BrokerId(request.broker_id)
    if broker_id not in context.live_brokers:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    check_broker_epoch(context, broker_id, request.broker_epoch)
    # From now on it is put into no ISR.
    context.shutting_down.add(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    async for replica in plan.slices.of(context.replicas_on({broker_id})):
        each = replica.topic_partition
        state = plan.state(each)
        if state is None or not _is_to_move(context, each):
            continue
        (led if state.leader == broker_id else followed).append(each)

    def select(each: TopicPartition, candidates: Candidates) -> Elected | None:
        return controlled_shutdown(candidates, shutting_down=context.shutting_down)

    await partition_state_machine.elect(plan, led, select)
    await replica_state_machine.take_offline(plan, [Replica(each, broker_id) for each in followed])


def response(context: ControllerContext, broker_id: int) -> ControlledShutdownResponse:
    """With what it still leads although it has other replicas: the broker asks again."""
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=each.topic, partition_index=each.partition)
            for each, committed in context.committed.items()
            if committed.state.leader == broker_id and _is_to_move(context, each)
        ]
    )


def _is_to_move(context: ControllerContext, topic_partition: TopicPartition) -> bool:
    assignment = context.assignment(topic_partition)
    return (
        assignment is not None
        and len(assignment.replicas) > 1
        and topic_partition.topic not in context.topics_to_delete
    )
