"""The controller at work: its context, what it writes, and whom it tells.

Whatever happens to it is an event, and events come one after another. Each plans from the context
(`ChangePlan`), writes, applies, and tells the brokers. Only `commit` writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.controller import broker_changes, reassignment, topic_deletion, unclean_recovery
from ottla.controller.change_plan import ChangePlan
from ottla.controller.channel_manager import ChannelManager, Connect, Response
from ottla.controller.controller_context import (
    Config,
    ControllerContext,
    LiveBroker,
    Replica,
    load_context,
    read_brokers,
)
from ottla.controller.election import Leadership
from ottla.controller.partition_state_machine import RECOVERING
from ottla.controller.request_batch import Request, Sender, partitions_to_delete
from ottla.controller.unclean_recovery import AskLogEnds, UncleanRecovery
from ottla.coordination import znodes
from ottla.coordination.store import Check, Create, Delete, NodeExists, NoNode, Store, in_batches
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.clock import Clock, Timer
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.slices import Slices
from ottla.kernel.state_change_log import NO_LEADER, StateChangeLog
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:  # Elections that somebody asks for are imported with the first one.
    from ottla.controller import leader_elections
    from ottla.controller.leader_elections import ElectionType

log = logging.getLogger(__name__)

_FIRST_REBALANCE_S = 5.0
"""A cluster that has just started has its leaders all over."""

Post = Callable[[Callable[["ActiveController"], Awaitable[None]]], None]
"""Puts an event into the queue. It is dropped when the controller has resigned by then."""


class ActiveController:
    """Owned by `ClusterController`, for one controller epoch. A crash leaves in the store what was
    written; whoever is elected next goes on from there."""

    def __init__(
        self,
        store: Store,
        leadership: Leadership,
        *,
        broker_id: BrokerId,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        connect: Connect,
        ask_log_ends: AskLogEnds,
        post: Post,
        changes: StateChangeLog | None = None,
    ) -> None:
        self.store = store
        self.leadership = leadership
        self.broker_id = broker_id
        self.config = config
        self.clock = clock
        self.post = post
        self._changes = changes or StateChangeLog(broker_id)
        self.context = ControllerContext(leadership.controller_epoch, self._resolve)
        self.channels = ChannelManager(
            connect, self._heard, timeout_s=config().controller_socket_timeout_ms / 1000
        )
        self._recovery = UncleanRecovery(ask_log_ends)
        self.reassigned_by_node: set[TopicPartition] | None = None
        """What `/admin/reassign_partitions` asks for, while it is there."""
        self._rebalance: Timer | None = None
        self._deletions: dict[str, asyncio.Future[None]] = {}
        """By topic: done when it is gone, with all its replicas."""

    def _resolve(self, topic_config: Config) -> TopicConfig:
        return TopicConfig.resolve(topic_config, self.config())

    async def take_over(self) -> None:
        """The first event of a controller."""
        with suppress(NodeExists):
            await self.store.create(znodes.ACCEPTED_BROKERS)
        slices = Slices(self.clock)
        self.context = context = await load_context(
            self.store, self.leadership.controller_epoch, self._resolve, slices
        )
        registered = context.live_brokers
        context.live_brokers = {
            broker.id: broker
            for broker in registered.values()
            if context.accepted_epochs.get(broker.id) == broker.epoch
        }
        await broker_changes.set_first_states(context, slices)
        known = {
            BrokerId(each) for _, assignment in context.partitions() for each in assignment.replicas
        }
        plan = self.plan()
        await self._change_brokers(plan, known.difference(context.live_brokers), registered)
        plan.requests.tell_all(registered)
        await self.commit(plan)
        log.info(
            "broker %d is the controller, with epoch %d: %d brokers, %d topics",
            self.broker_id,
            context.controller_epoch,
            len(context.live_brokers),
            len(context.topics),
        )
        await self._go_on()
        await reassignment.look_at_node(self)
        await self.look_at_preferred_election()
        await self.look_at_log_dir_events()
        self._rebalance = self.clock.call_later(_FIRST_REBALANCE_S, self._rebalance_due)

    async def _go_on(self) -> None:
        """With what waited for a broker, perhaps for one that is back."""
        await topic_deletion.resume(self)
        await reassignment.complete(self)
        self._recovery.look(self)

    def plan(self) -> ChangePlan:
        return ChangePlan(self.context, self.clock)

    async def commit(self, plan: ChangePlan) -> list[str]:
        """Writes, applies and tells. Returns the paths of sequential nodes that it made. Raises
        StoreError: whoever asked for it does not know what was written, and the context is not to
        be trusted any more."""
        guard = Check(znodes.CONTROLLER_EPOCH, self.leadership.epoch_version)
        made: list[str] = []
        for batch in in_batches(await plan.operations(), guard):
            results = await self.store.multi(batch)
            made += [
                result
                for operation, result in zip(batch, results, strict=True)
                if isinstance(operation, Create) and operation.sequential
                if isinstance(result, str)
            ]
        plan.apply(self._state_changed)
        sender = Sender(
            self.broker_id,
            self.leadership.controller_epoch,
            self.config().inter_broker_listener_name,
        )
        requests = await plan.requests.build(self.context, sender, plan.slices)
        for broker_id, each in requests.items():
            self.channels.send(broker_id, each)
        return made

    def _state_changed(
        self, topic_partition: TopicPartition, before: LeaderAndIsr | None, after: LeaderAndIsr
    ) -> None:
        old = NO_LEADER if before is None else before.leader
        self._changes.leader_changed(
            topic_partition,
            controller_epoch=self.leadership.controller_epoch,
            leader=(old, after.leader),
            leader_epoch=after.leader_epoch,
            isr=(() if before is None else before.isr, after.isr),
            is_new=before is None,
            is_unclean=old != after.leader and after.leader_recovery_state == RECOVERING,
        )

    def close(self) -> None:
        self.channels.close()
        self._recovery.close()
        if self._rebalance is not None:
            self._rebalance.cancel()
        for waiting in self._deletions.values():
            waiting.cancel()

    # -- brokers ------------------------------------------------------------------------

    async def brokers_changed(self) -> None:
        registered = await read_brokers(self.store)
        context = self.context
        gone = {
            broker.id
            for broker in context.live_brokers.values()
            if registered.get(broker.id) != broker
        }
        if not gone and registered.keys() == context.live_brokers.keys():
            return
        plan = self.plan()
        context.live_brokers = {
            broker_id: broker
            for broker_id, broker in context.live_brokers.items()
            if broker_id not in gone
        }
        await self._change_brokers(plan, gone, registered)
        await self.commit(plan)
        await self._go_on()

    async def _change_brokers(
        self, plan: ChangePlan, gone: set[BrokerId], registered: dict[BrokerId, LiveBroker]
    ) -> None:
        context = self.context
        context.shutting_down -= gone
        for broker_id in gone:
            context.offline_dirs.pop(broker_id, None)
        started = [each for each in registered.values() if each.id not in context.live_brokers]
        log.info("brokers gone: %s, started: %s", sorted(gone), [each.id for each in started])
        await broker_changes.plan_failure(plan, gone)
        for broker in started:
            if broker.info.unclean_log_dirs:
                log.warning(
                    "broker %d may have lost the end of its logs in %s",
                    broker.id,
                    ", ".join(broker.info.unclean_log_dirs),
                )
                await unclean_recovery.plan_loss_of_tails(plan, broker.id)
        context.live_brokers = registered
        self.channels.set_brokers(registered.values())
        await broker_changes.plan_start(plan, started)

    # -- elections ----------------------------------------------------------------------

    def _rebalance_due(self) -> None:
        interval_s = self.config().leader_imbalance_check_interval_seconds
        self._rebalance = self.clock.call_later(interval_s, self._rebalance_due)
        if self.config().auto_leader_rebalance_enable:
            self.post(ActiveController.rebalance_leaders)

    async def rebalance_leaders(self) -> None:
        from ottla.controller import leader_elections
        from ottla.controller.leader_elections import ElectionType

        percentage = self.config().leader_imbalance_per_broker_percentage
        partitions = leader_elections.imbalanced(self.context, percentage)
        if partitions:
            log.info("%d partitions go back to their preferred leaders", len(partitions))
            await self.elect_leaders(ElectionType.PREFERRED, partitions)

    async def elect_leaders(
        self, kind: ElectionType, partitions: Iterable[TopicPartition]
    ) -> leader_elections.Results:
        from ottla.controller import leader_elections

        plan = self.plan()
        results = await leader_elections.plan_elections(plan, kind, partitions)
        await self.commit(plan)
        return results

    async def look_at_preferred_election(self) -> None:
        """Kafka's way before there was a request for it: a node that goes when it is done."""
        try:
            node = await self.store.get(znodes.PREFERRED_REPLICA_ELECTION)
        except NoNode:
            return
        from ottla.controller import leader_elections
        from ottla.controller.leader_elections import ElectionType

        plan = self.plan()
        try:
            asked = znodes.decode_preferred_election(node.data)
        except znodes.BadZnode as error:
            log.error("%s; it is deleted", error)
        else:
            partitions = [TopicPartition(*each) for each in asked]
            await leader_elections.plan_elections(plan, ElectionType.PREFERRED, partitions)
        plan.write(Delete(znodes.PREFERRED_REPLICA_ELECTION))
        await self.commit(plan)

    # -- disks --------------------------------------------------------------------------

    async def look_at_log_dir_events(self) -> None:
        """A broker says that it has lost a log dir. It is told of all its replicas, and answers
        which of them it cannot use."""
        names = await self.store.children(znodes.LOG_DIR_EVENTS)
        if not names:
            return
        paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names]
        plan = self.plan()
        for path, node in (await self.store.get_many(paths)).items():
            try:
                plan.requests.tell_all([BrokerId(znodes.decode_log_dir_event(path, node.data))])
            except znodes.BadZnode as error:
                log.error("%s; it is deleted", error)
            plan.write(Delete(path))
        await self.commit(plan)

    # -- what brokers answer ------------------------------------------------------------

    def _heard(self, broker: LiveBroker, request: Request, response: Response) -> None:
        if response.error_code:
            # A newer controller, or a newer registration: the store will tell.
            log.warning(
                "broker %d refused %s: %s",
                broker.id,
                type(request).__name__,
                ErrorCode(response.error_code).name,
            )
            return
        if isinstance(request, LeaderAndIsrRequest):
            assert isinstance(response, LeaderAndIsrResponse)
            self._heard_of_leaders(broker, response)
        elif isinstance(request, StopReplicaRequest):
            assert isinstance(response, StopReplicaResponse)
            self._heard_of_deletions(broker, request, response)

    def _heard_of_leaders(self, broker: LiveBroker, response: LeaderAndIsrResponse) -> None:
        by_id = self.context.topics_by_id
        failed = {
            TopicPartition(by_id[topic.topic_id].name, partition.partition_index)
            for topic in response.topics
            if topic.topic_id in by_id
            for partition in topic.partition_errors
            if partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        }
        if failed:
            self.post(lambda active: active.disks_failed(broker, failed))

    async def disks_failed(self, broker: LiveBroker, failed: set[TopicPartition]) -> None:
        """The broker is alive, and cannot use these replicas."""
        context = self.context
        if context.live_brokers.get(broker.id) != broker:
            return
        offline = context.offline_dirs.setdefault(broker.id, set())
        fresh = failed - offline
        offline |= fresh
        plan = self.plan()
        await broker_changes.plan_loss(
            plan, [Replica(each, broker.id) for each in sorted(fresh) if context.assignment(each)]
        )
        await self.commit(plan)
        await self._go_on()

    def _heard_of_deletions(
        self, broker: LiveBroker, request: StopReplicaRequest, response: StopReplicaResponse
    ) -> None:
        asked = partitions_to_delete(request)
        failed = {
            TopicPartition(each.topic_name, each.partition_index): ErrorCode(each.error_code)
            for each in response.partition_errors
            if each.error_code
        }
        if asked:
            self.post(lambda active: topic_deletion.answered(active, broker, asked, failed))

    # -- deletions ----------------------------------------------------------------------

    def deletion(self, topic: str) -> asyncio.Future[None]:
        """Done when the topic is gone, with all its replicas; cancelled when this controller
        resigns before."""
        if topic not in self._deletions:
            self._deletions[topic] = asyncio.get_running_loop().create_future()
        return self._deletions[topic]

    def deletion_done(self, topic: str) -> None:
        waiting = self._deletions.pop(topic, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
