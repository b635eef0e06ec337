"""Partitions whose in-sync replicas may have lost the end of their logs.

A broker that comes back after a power failure has what was on its disk, and perhaps not all that
it acknowledged. Its registration says so. It leaves the ISR and the eligible replicas of its
partitions before it counts as alive, so others who have everything lead (as in KIP-966).

Where that leaves nobody, all of the last ISR are waited for. Each is asked where its log ends, and
the one with the highest (last epoch, end) leads: no other has more. Whoever does not want to wait
allows, or asks for, an unclean election.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.controller import partition_state_machine
from ottla.controller.change_plan import ChangePlan
from ottla.controller.controller_context import NO_LEADER, ControllerContext, LiveBroker
from ottla.controller.leader_selectors import Candidates, Elected
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.controller.active_controller import ActiveController

log = logging.getLogger(__name__)

RETRY_PAUSE_S = 1.0


class LogEnd(NamedTuple):
    """They are compared in this order: a later leader's records are the ones that count."""

    last_epoch: int
    log_end_offset: int


NOTHING = LogEnd(-1, -1)

AskLogEnds = Callable[
    [BrokerId, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, LogEnd]]
]
"""Where the logs of a broker end; those that it does not have are left out. Raises OSError or
KafkaError while it cannot be asked."""


async def plan_loss_of_tails(plan: ChangePlan, broker_id: BrokerId) -> None:
    """The broker does not count as alive yet."""
    async for replica in plan.slices.of(plan.context.replicas_on({broker_id})):
        each = replica.topic_partition
        state = plan.state(each)
        if state is None or broker_id not in (*state.isr, *state.eligible_leader_replicas):
            continue
        others = (
            () if state.leader != NO_LEADER else tuple(sorted({*state.last_known_elr, broker_id}))
        )
        plan.set_state(
            each,
            state._replace(
                leader_epoch=state.leader_epoch + 1,
                isr=_without(state.isr, broker_id),
                controller_epoch=plan.context.controller_epoch,
                eligible_leader_replicas=_without(state.eligible_leader_replicas, broker_id),
                last_known_elr=others,
            ),
        )
        plan.tell_replicas(each)


def _without(members: tuple[int, ...], broker_id: int) -> tuple[int, ...]:
    return tuple(each for each in members if each != broker_id)


def waiting(context: ControllerContext) -> list[TopicPartition]:
    """Partitions that nobody is known to have whole, and all of whose last ISR are alive."""
    return [
        each
        for each, (state, _) in context.committed.items()
        if state.last_known_elr
        and state.leader == NO_LEADER
        and not state.isr
        and not state.eligible_leader_replicas
        and each.topic not in context.topics_to_delete
        and all(context.is_online(broker_id, each) for broker_id in state.last_known_elr)
    ]


class UncleanRecovery:
    """Owned by a controller, for one controller epoch. Asks beside the queue of events: a broker
    may take its time."""

    def __init__(self, ask_log_ends: AskLogEnds) -> None:
        self._ask_log_ends = ask_log_ends
        self._asking: asyncio.Task[None] | None = None

    def look(self, active: ActiveController) -> None:
        """After brokers have come or gone."""
        self.close()
        context = active.context
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        epochs: dict[TopicPartition, int] = {}
        for each in waiting(context):
            state, epochs[each] = context.committed[each]
            for broker_id in state.last_known_elr:
                by_broker.setdefault(BrokerId(broker_id), []).append(each)
        brokers = [context.live_brokers[broker_id] for broker_id in by_broker]
        if brokers:
            asking = self._ask(active, brokers, by_broker, epochs)
            self._asking = asyncio.get_running_loop().create_task(asking)
            self._asking.add_done_callback(lambda task: _resign_if_failed(active, task))

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(
        self,
        active: ActiveController,
        brokers: Sequence[LiveBroker],
        by_broker: Mapping[BrokerId, list[TopicPartition]],
        epochs: Mapping[TopicPartition, int],
    ) -> None:
        ends: dict[TopicPartition, dict[BrokerId, LogEnd]] = {each: {} for each in epochs}
        for broker_id, asked in by_broker.items():
            answer = await self._ask_until_answered(broker_id, asked)
            for each in asked:
                ends[each][broker_id] = answer.get(each, NOTHING)
        active.post(lambda active: _elect(active, brokers, ends, epochs))

    async def _ask_until_answered(
        self, broker_id: BrokerId, partitions: list[TopicPartition]
    ) -> Mapping[TopicPartition, LogEnd]:
        while True:
            try:
                return await self._ask_log_ends(broker_id, partitions)
            except (OSError, KafkaError) as error:
                log.warning("broker %d has not said where its logs end: %s", broker_id, error)
            await asyncio.sleep(RETRY_PAUSE_S)


def _resign_if_failed(active: ActiveController, task: asyncio.Task[None]) -> None:
    """What nobody foresaw makes the controller resign, here too."""
    failure = None if task.cancelled() else task.exception()
    if failure is not None:

        async def fail(active: ActiveController) -> None:
            raise failure

        active.post(fail)


async def _elect(
    active: ActiveController,
    brokers: Sequence[LiveBroker],
    ends: Mapping[TopicPartition, Mapping[BrokerId, LogEnd]],
    epochs: Mapping[TopicPartition, int],
) -> None:
    """What was asked holds while nothing has changed since; else it is asked again."""
    if any(active.context.live_brokers.get(broker.id) != broker for broker in brokers):
        return
    still = set(waiting(active.context))
    plan = active.plan()

    def select(each: TopicPartition, candidates: Candidates) -> Elected | None:
        known = ends[each]
        leader = max(known, key=lambda broker: (known[broker], -_place(candidates, broker)))
        log.warning(
            "%s is led by broker %d, which has the most of the last in-sync replicas: %s."
            " Records that none of them had on disk are lost",
            each,
            leader,
            {broker: tuple(end) for broker, end in known.items()},
        )
        return Elected(leader, (leader,))

    unchanged = [
        each
        for each, epoch in epochs.items()
        if each in still and active.context.committed[each].partition_epoch == epoch
    ]
    await partition_state_machine.elect(plan, unchanged, select)
    await active.commit(plan)


def _place(candidates: Candidates, broker_id: int) -> int:
    return candidates.replicas.index(broker_id)
