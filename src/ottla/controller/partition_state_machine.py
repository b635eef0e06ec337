"""What a partition goes through:

    NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ NON_EXISTENT
                      └──────────────────▶ ▲

A new partition has replicas and no state yet. An online one has a leader. An offline one has lost
its leader and nobody can take over. ONLINE leads to ONLINE when another leader is chosen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ottla.controller.leader_selectors import Candidates, Elected
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.controller.change_plan import ChangePlan

log = logging.getLogger(__name__)


class PartitionState(Enum):
    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


PREVIOUS_STATES: Mapping[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
"""By state, those that it can be reached from."""

RECOVERED = 0
RECOVERING = 1

Select = Callable[[TopicPartition, Candidates], Elected | None]


def move(plan: ChangePlan, topic_partition: TopicPartition, target: PartitionState) -> None:
    current = plan.partition_state(topic_partition)
    assert current in PREVIOUS_STATES[target], (
        f"{topic_partition} is {current.value}, and cannot become {target.value}"
    )
    plan.set_partition_state(topic_partition, target)


async def initialize(
    plan: ChangePlan,
    partitions: Iterable[TopicPartition],
    leader_epochs: Mapping[int, int] | None = None,
) -> None:
    """New partitions get their first leader and ISR: all replicas that are online. Where none is,
    the partition waits. `leader_epochs`, by partition, are for a topic whose logs are there."""
    async for each in plan.slices.of(partitions):
        replicas = plan.assignment(each).replicas
        isr = tuple(replica for replica in replicas if plan.context.is_online(replica, each))
        if not isr:
            log.warning("%s has no replica that is online: %s", each, replicas)
            continue
        move(plan, each, PartitionState.ONLINE)
        plan.set_state(
            each,
            LeaderAndIsr(
                leader=isr[0],
                leader_epoch=(leader_epochs or {}).get(each.partition, 0),
                isr=isr,
                controller_epoch=plan.context.controller_epoch,
            ),
        )
        plan.tell_replicas(each, is_new=True)


async def elect(
    plan: ChangePlan, partitions: Iterable[TopicPartition], select: Select
) -> list[TopicPartition]:
    """Chooses leaders, in a new leader epoch. Returns those for whom nobody could be chosen; they
    stay as they were."""
    failed = []
    async for each in plan.slices.of(partitions):
        found = candidates(plan, each)
        elected = select(each, found)
        if elected is None:
            failed.append(each)
            continue
        move(plan, each, PartitionState.ONLINE)
        plan.set_state(each, _elected_state(plan, each, found.state, elected))
        plan.tell_replicas(each)
    return failed


def candidates(plan: ChangePlan, topic_partition: TopicPartition) -> Candidates:
    state = plan.state(topic_partition)
    assert state is not None, f"{topic_partition} has no state: it is to be initialized"
    replicas = plan.assignment(topic_partition).replicas
    online = [each for each in replicas if plan.context.is_online(each, topic_partition)]
    return Candidates(replicas, online, state)


def _elected_state(
    plan: ChangePlan, topic_partition: TopicPartition, state: LeaderAndIsr, elected: Elected
) -> LeaderAndIsr:
    if elected.is_unclean:
        log.warning(
            "%s is led by %d, which is not in sync: committed records may be lost (the ISR was %s)",
            topic_partition,
            elected.leader,
            state.isr,
        )
        eligible: tuple[int, ...] = ()
    else:
        eligible = plan.eligible(topic_partition, state, elected.isr)
    return LeaderAndIsr(
        leader=elected.leader,
        leader_epoch=state.leader_epoch + 1,
        isr=elected.isr,
        controller_epoch=plan.context.controller_epoch,
        leader_recovery_state=(RECOVERING if elected.is_unclean else state.leader_recovery_state),
        eligible_leader_replicas=eligible,
    )
