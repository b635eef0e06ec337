"""AlterPartition: a leader asks for another ISR (KIP-497), and the controller decides.

The controller alone writes the state of a partition, so a leader that another has replaced cannot
change it any more. The leader epoch stays as it is: the leader is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import CommittedState, ControllerContext
from ottla.controller.partition_state_machine import RECOVERED, RECOVERING
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResult,
    TopicData,
    TopicDataResult,
)

TOPIC_IDS_SINCE = 2
NOT_CHECKED = -1

Answer = list[tuple[TopicData, list[tuple[PartitionData, TopicPartition | None, ErrorCode]]]]
"""As the request lists them, who is who, and what is wrong with each."""


def check_broker_epoch(context: ControllerContext, broker_id: int, epoch: int) -> None:
    """Raises KafkaError: what a broker asks for under a registration that it does not have any
    more, or does not name, does not count."""
    current = context.epoch_of(broker_id)
    if current is None or epoch != current:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {broker_id} is registered with epoch {current}, not with {epoch}.",
        )


async def plan_changes(plan: ChangePlan, request: AlterPartitionRequest, version: int) -> Answer:
    """Plans what is right; `response` tells, once that is written."""
    check_broker_epoch(plan.context, request.broker_id, request.broker_epoch)
    answer: Answer = []
    for topic in request.topics:
        found: list[tuple[PartitionData, TopicPartition | None, ErrorCode]] = []
        answer.append((topic, found))
        name = _name(plan.context, topic, version)
        async for asked in plan.slices.of(topic.partitions):
            if name is None:
                found.append((asked, None, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            topic_partition = TopicPartition(name, asked.partition_index)
            code = _problem(plan.context, request.broker_id, topic_partition, asked, version)
            if code is ErrorCode.NONE:
                _plan_change(plan, topic_partition, asked)
            found.append((asked, topic_partition, code))
    return answer


def _name(context: ControllerContext, topic: TopicData, version: int) -> str | None:
    if version < TOPIC_IDS_SINCE:
        return topic.topic_name
    known = context.topics_by_id.get(topic.topic_id)
    return None if topic.topic_id == NO_TOPIC_ID or known is None else known.name


def _problem(
    context: ControllerContext,
    broker_id: int,
    topic_partition: TopicPartition,
    asked: PartitionData,
    version: int,
) -> ErrorCode:
    committed = context.committed.get(topic_partition)
    assignment = context.assignment(topic_partition)
    if committed is None or assignment is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    state = committed.state
    # Whoever knows of later epochs than this controller has heard from its successor.
    if asked.leader_epoch > state.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.partition_epoch > committed.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    isr = {each.broker_id for each in _isr(asked)}
    if broker_id != state.leader or broker_id not in isr or isr.difference(assignment.replicas):
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < committed.partition_epoch:
        # The same again, since its first answer was lost, has succeeded.
        return (
            ErrorCode.NONE if _is_as_asked(committed, asked) else ErrorCode.INVALID_UPDATE_VERSION
        )
    if asked.leader_recovery_state == RECOVERING and (
        len(isr) > 1 or state.leader_recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if not all(_may_be_in_sync(context, topic_partition, each) for each in _isr(asked)):
        is_known = version >= TOPIC_IDS_SINCE
        return ErrorCode.INELIGIBLE_REPLICA if is_known else ErrorCode.OPERATION_NOT_ATTEMPTED
    return ErrorCode.NONE


def _isr(asked: PartitionData) -> Sequence[BrokerState]:
    return asked.new_isr_with_epochs or [BrokerState(broker_id=each) for each in asked.new_isr]


def _is_as_asked(committed: CommittedState, asked: PartitionData) -> bool:
    return {each.broker_id for each in _isr(asked)} == set(
        committed.state.isr
    ) and asked.leader_recovery_state == committed.state.leader_recovery_state


def _may_be_in_sync(
    context: ControllerContext, topic_partition: TopicPartition, broker: BrokerState
) -> bool:
    """One that is alive under the registration that the leader saw it fetch with (KIP-903), and
    not about to stop (KIP-841)."""
    return (
        context.is_online(broker.broker_id, topic_partition)
        and broker.broker_id not in context.shutting_down
        and broker.broker_epoch in (NOT_CHECKED, context.epoch_of(broker.broker_id))
    )


def _plan_change(plan: ChangePlan, topic_partition: TopicPartition, asked: PartitionData) -> None:
    committed = plan.context.committed[topic_partition]
    if asked.partition_epoch < committed.partition_epoch or _is_as_asked(committed, asked):
        return
    state = committed.state
    isr = tuple(each.broker_id for each in _isr(asked))
    plan.set_state(
        topic_partition,
        state._replace(
            isr=isr,
            controller_epoch=plan.context.controller_epoch,
            leader_recovery_state=asked.leader_recovery_state,
            eligible_leader_replicas=plan.eligible(topic_partition, state, isr),
        ),
    )
    plan.requests.update_metadata([topic_partition])


def reassigned(context: ControllerContext, answer: Answer) -> list[TopicPartition]:
    """Those that wait for others to be in sync."""
    return [
        each
        for _, found in answer
        for _, each, _ in found
        if each is not None and context.is_reassigned(each)
    ]


def response(context: ControllerContext, answer: Answer) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            TopicDataResult(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[_result(context, *each) for each in found],
            )
            for topic, found in answer
        ]
    )


def _result(
    context: ControllerContext,
    asked: PartitionData,
    topic_partition: TopicPartition | None,
    code: ErrorCode,
) -> PartitionDataResult:
    if code is not ErrorCode.NONE:
        return PartitionDataResult(partition_index=asked.partition_index, error_code=code)
    assert topic_partition is not None
    state, partition_epoch = context.committed[topic_partition]
    return PartitionDataResult(
        partition_index=asked.partition_index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=partition_epoch,
    )
