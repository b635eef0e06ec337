"""A broker as a candidate for controller, and as the controller while it is one.

    candidate ── /controller is free, and created first ──▶ controller
        ▲                                                        │
        └── the session is over, another is controller, ─────────┘
            or something happened that nobody foresaw

A candidate stands for election while its broker is registered in the same session, as in Kafka.

A controller that meets an error for which nobody planned has a context that may be wrong. It
resigns: whoever is elected next, possibly itself, reads everything anew.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.controller import reassignment
from ottla.controller.active_controller import ActiveController
from ottla.controller.channel_manager import Connect
from ottla.controller.election import elect, not_controller, store_failure
from ottla.controller.event_queue import EventQueue
from ottla.coordination import znodes
from ottla.coordination.store import (
    ConnectionLost,
    Node,
    NoNode,
    SessionExpired,
    SessionState,
    Set,
    Store,
    StoreError,
    Watch,
)
from ottla.coordination.znodes import ReplicaAssignment
from ottla.kernel.clock import Clock, Timer
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.state_change_log import StateChangeLog

# What a request asks for is imported with the first one, as handlers are: a start needs none of it.
if TYPE_CHECKING:
    from ottla.controller import leader_elections
    from ottla.controller.configs import Configs
    from ottla.controller.leader_elections import ElectionType
    from ottla.controller.topic_planning import ConfigCheck
    from ottla.controller.topics import Topics
    from ottla.controller.unclean_recovery import AskLogEnds
    from ottla.wire.messages.allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )
    from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from ottla.wire.messages.controlled_shutdown import (
        ControlledShutdownRequest,
        ControlledShutdownResponse,
    )

log = logging.getLogger(__name__)

T = TypeVar("T")

Event = Callable[[ActiveController], Awaitable[T]]

RETRY_PAUSE_S = 1.0
"""After a resignation, and while the store cannot be reached: others go first."""


class ClusterController:
    """Owned by the broker, from its registration until it stops. A crash takes the node
    `/controller` with the session, and another broker goes on."""

    def __init__(
        self,
        store: Store,
        broker_id: BrokerId,
        *,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        rng: random.Random,
        connect: Connect,
        ask_log_ends: AskLogEnds,
        shows_config: Callable[[str], Awaitable[None]],
        check_topic_config: ConfigCheck,
        changes: StateChangeLog | None = None,
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._config = config
        self._clock = clock
        self._connect = connect
        self._ask_log_ends = ask_log_ends
        self._changes = changes or StateChangeLog(broker_id)
        self._events = EventQueue()
        self._active: ActiveController | None = None
        self._watches: list[Watch] = []
        self._posted: set[str] = set()
        self._retry: Timer | None = None
        self._has_just_resigned = False
        self._is_looking = False
        self._expiry_count = 0
        self._is_closed = False
        self._rng = rng
        self._check_topic_config = check_topic_config
        self._shows_config = shows_config

    @cached_property
    def topics(self) -> Topics:
        from ottla.controller.topic_planning import TopicDefaults, TopicPlanner
        from ottla.controller.topics import Topics

        def defaults() -> TopicDefaults:
            config = self._config()
            return TopicDefaults(config.num_partitions, config.default_replication_factor)

        planner = TopicPlanner(
            rng=self._rng, defaults=defaults, check_config=self._check_topic_config
        )
        return Topics(self._run, planner)

    @cached_property
    def configs(self) -> Configs:
        from ottla.controller.configs import Configs

        return Configs(self._run, self._shows_config)

    @property
    def is_active(self) -> bool:
        return self._active is not None

    @property
    def controller_epoch(self) -> int | None:
        """None while another is controller."""
        return None if self._active is None else self._active.leadership.controller_epoch

    async def start(self) -> None:
        """Of a broker that is registered. Returns when there is a controller, this one or
        another, as far as the store can be reached."""
        self._events.start()
        self._store.on_session(self._session_changed)
        for watch, path, event in (
            (self._store.watch_node, znodes.CONTROLLER, self._look),
            (self._store.watch_children, znodes.BROKER_IDS, self._brokers_changed),
            (self._store.watch_node, znodes.REASSIGN_PARTITIONS, self._reassignment_asked),
            (self._store.watch_node, znodes.PREFERRED_REPLICA_ELECTION, self._election_asked),
            (self._store.watch_children, znodes.LOG_DIR_EVENTS, self._log_dir_failed),
        ):
            self._watches.append(await self._begin_watch(watch, path, event))
        await self._events.run(self._become_controller)

    async def _begin_watch(
        self,
        watch: Callable[[str, Callable[[], None]], Awaitable[Watch]],
        path: str,
        event: Callable[[], None],
    ) -> Watch:
        """A session that expires here is followed by another, which the registration begins."""
        while True:
            try:
                return await watch(path, event)
            except (SessionExpired, ConnectionLost) as error:
                log.warning("%s cannot be watched yet: %s", path, error)
                await asyncio.sleep(RETRY_PAUSE_S)

    async def own_broker_told(self) -> None:
        """Waits until its own broker has taken what this controller has told it so far; at once
        where another broker is the controller."""
        if self._active is not None:
            await self._active.channels.delivered(self._broker_id)

    async def close(self) -> None:
        """Resigns, so that another can go on at once."""
        self._is_closed = True
        for watch in self._watches:
            watch.cancel()
        if self._retry is not None:
            self._retry.cancel()
        await self._events.close()
        if self._active is not None:
            self._drop()
            await self._leave_office()

    # -- requests -----------------------------------------------------------------------

    async def alter_partition(
        self, request: AlterPartitionRequest, version: int
    ) -> AlterPartitionResponse:
        from ottla.controller import alter_partition
        from ottla.wire.messages.alter_partition import AlterPartitionResponse

        async def event(active: ActiveController) -> AlterPartitionResponse:
            plan = active.plan()
            answer = await alter_partition.plan_changes(plan, request, version)
            await active.commit(plan)
            response = alter_partition.response(active.context, answer)
            # After what the leader asked for: a new leader epoch would refuse it.
            moving = alter_partition.reassigned(active.context, answer)
            if moving:
                self._post(lambda active: reassignment.complete(active, moving))
            return response

        try:
            return await self._run(event)
        except KafkaError as error:
            return AlterPartitionResponse(error_code=error.code)

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        from ottla.controller import controlled_shutdown
        from ottla.wire.messages.controlled_shutdown import ControlledShutdownResponse

        async def event(active: ActiveController) -> ControlledShutdownResponse:
            plan = active.plan()
            await controlled_shutdown.plan_shutdown(plan, request)
            await active.commit(plan)
            return controlled_shutdown.response(active.context, request.broker_id)

        try:
            return await self._run(event)
        except KafkaError as error:
            return ControlledShutdownResponse(error_code=error.code)

    async def elect_leaders(
        self, kind: ElectionType, partitions: Collection[TopicPartition] | None
    ) -> leader_elections.Results:
        """Of these partitions, or of all. Of all, those that need none are left out."""

        async def event(active: ActiveController) -> leader_elections.Results:
            if partitions is not None:
                return await active.elect_leaders(kind, partitions)
            context = active.context
            everything = [
                each
                for each, _ in context.partitions()
                if each.topic not in context.topics_to_delete
            ]
            results = await active.elect_leaders(kind, everything)
            return {
                each: error
                for each, error in results.items()
                if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
            }

        return await self._run(event)

    async def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allows_factor_change: bool = True,
    ) -> reassignment.Results:
        """By partition, the replicas to move to; None cancels."""

        async def event(active: ActiveController) -> reassignment.Results:
            return await reassignment.begin(
                active, wanted, allows_factor_change=allows_factor_change
            )

        return await self._run(event)

    async def list_reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Those of these partitions, or of all, that are being moved."""

        async def event(active: ActiveController) -> dict[TopicPartition, ReplicaAssignment]:
            return {
                each: assignment
                for each, assignment in active.context.partitions()
                if (assignment.adding_replicas or assignment.removing_replicas)
                and (partitions is None or each in partitions)
            }

        return await self._run(event)

    def unclean_elections_allowed(self) -> None:
        """The broker's settings allow them now, for all topics that say nothing else."""
        from ottla.controller.configs import elect_uncleanly

        self._post(elect_uncleanly, "unclean elections")

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        from ottla.controller.alter_partition import check_broker_epoch
        from ottla.controller.producer_id_blocks import BLOCK_SIZE, next_block
        from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse

        async def event(active: ActiveController) -> AllocateProducerIdsResponse:
            if request.broker_id not in active.context.live_brokers:
                raise KafkaError(
                    ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {request.broker_id} is not alive."
                )
            check_broker_epoch(active.context, request.broker_id, request.broker_epoch)
            path = znodes.PRODUCER_ID_BLOCK
            node = await active.store.get(path)
            block = next_block(znodes.decode_producer_id_block(node.data), request.broker_id)
            plan = active.plan()
            plan.write(Set(path, znodes.encode_producer_id_block(block), node.version))
            await active.commit(plan)
            return AllocateProducerIdsResponse(
                producer_id_start=block.first_producer_id, producer_id_len=BLOCK_SIZE
            )

        try:
            return await self._run(event)
        except KafkaError as error:
            return AllocateProducerIdsResponse(error_code=error.code)

    # -- events -------------------------------------------------------------------------

    async def _run(self, event: Event[T]) -> T:
        """Of somebody who waits for it."""
        return await self._events.run(lambda: self._in_turn(event))

    def _post(self, event: Event[None], name: str | None = None) -> None:
        """Of nobody who waits for it. One with a name is not put into the queue again while it
        waits there."""
        if name in self._posted:
            return
        if name is not None:
            self._posted.add(name)

        async def quietly() -> None:
            if name is not None:
                self._posted.discard(name)
            with suppress(KafkaError):  # Whatever is to be said of it is in the log.
                await self._in_turn(event)

        self._events.post(quietly)

    async def _in_turn(self, event: Event[T]) -> T:
        active = self._active
        if active is None:
            raise not_controller()
        try:
            return await event(active)
        except KafkaError:
            raise  # A request that was refused, before anything was written.
        except StoreError as error:
            await self._resign(f"the store failed it: {error}")
            raise store_failure(error) from error
        except Exception as error:
            log.exception("the controller met something unforeseen")
            await self._resign("it cannot trust its context any more")
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "The controller failed, and another takes over. The change may or may not have been"
                " made. Look, then try again.",
            ) from error

    def _brokers_changed(self) -> None:
        if self._active is None:
            self._look()  # It may be this broker that has registered.
        self._post(ActiveController.brokers_changed, "brokers")

    def _reassignment_asked(self) -> None:
        self._post(reassignment.look_at_node, "reassignment")

    def _election_asked(self) -> None:
        self._post(ActiveController.look_at_preferred_election, "election")

    def _log_dir_failed(self) -> None:
        self._post(ActiveController.look_at_log_dir_events, "log dirs")

    # -- election -----------------------------------------------------------------------

    def _look(self) -> None:
        if not self._is_closed and not self._is_looking:
            self._is_looking = True
            self._events.post(self._become_controller)

    async def _become_controller(self) -> None:
        """The event of a candidate. It does not raise."""
        self._is_looking = False
        if self._has_just_resigned:
            return
        try:
            await self._try_to_become_controller()
        except SessionExpired:
            self._drop()  # The watches are called when there is another session.
        except StoreError as error:
            log.warning("no controller could be looked for: %s", error)
            self._drop()
            self._try_later()
        except Exception:
            log.exception("broker %d could not become controller", self._broker_id)
            await self._resign("it could not load its context")

    async def _try_to_become_controller(self) -> None:
        place = znodes.broker_path(self._broker_id)
        found = await self._store.get_many([znodes.CONTROLLER, place])
        is_free = znodes.CONTROLLER not in found
        is_mine = not is_free and self._owns(found[znodes.CONTROLLER])
        if self._active is not None and is_mine:
            return
        self._drop()
        if not is_free and not is_mine:
            return
        if place not in found or not self._owns(found[place]):
            return  # It would find itself dead. When it is registered, the watch tells.
        if not is_free:
            # An answer was lost. What was sent in that epoch may still be under way: take another.
            with suppress(NoNode):
                await self._store.delete(znodes.CONTROLLER)
        expiry_count = self._expiry_count
        leadership = await elect(self._store, self._broker_id, self._clock.now_ms())
        if leadership is None:
            return  # Another was quicker. When it goes, the watch tells.
        active = ActiveController(
            self._store,
            leadership,
            broker_id=self._broker_id,
            config=self._config,
            clock=self._clock,
            connect=self._connect,
            ask_log_ends=self._ask_log_ends,
            post=self._post,
            changes=self._changes,
        )
        try:
            await active.take_over()
        except BaseException:
            active.close()
            raise
        if self._expiry_count != expiry_count:
            active.close()
        else:
            self._active = active
            self._changes.controller_changed("is now", leadership.controller_epoch)

    def _owns(self, node: Node) -> bool:
        return node.ephemeral_owner == self._store.session_id

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._expiry_count += 1
            self._drop()

    async def _resign(self, reason: str) -> None:
        log.error("broker %d resigns as controller: %s", self._broker_id, reason)
        self._drop()
        self._has_just_resigned = True
        self._try_later()
        await self._leave_office()

    def _drop(self) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.close()
            self._changes.controller_changed("is no longer", active.leadership.controller_epoch)

    async def _leave_office(self) -> None:
        with suppress(StoreError):  # It goes with the session, or is found later.
            node = await self._store.get(znodes.CONTROLLER)
            if self._owns(node):
                await self._store.delete(znodes.CONTROLLER, node.version)

    def _try_later(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if not self._is_closed:
            self._retry = self._clock.call_later(RETRY_PAUSE_S, self._look_again)

    def _look_again(self) -> None:
        self._has_just_resigned = False
        self._look()
