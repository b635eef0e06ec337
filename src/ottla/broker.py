"""The broker: the only place that puts it all together."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.config.broker import BrokerConfig
from ottla.config.topic import validate_overrides
from ottla.controller.channel_manager import BrokerConnection, OwnBroker
from ottla.controller.cluster_controller import ClusterController
from ottla.controller.controller_context import LiveBroker
from ottla.coordination.store import ConnectionLost, SessionExpired, Store
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.runtime import Runtime
from ottla.coordinators.transactions.transaction_coordinator import TransactionCoordinator
from ottla.kernel.clock import Clock
from ottla.kernel.disk import Disk
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, ProducerId
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.kernel.loop_lag import LoopLag
from ottla.kernel.slices import Slices
from ottla.kernel.transport import Network
from ottla.kernel.workers import Workers
from ottla.membership.config_change_listener import ConfigChangeListener
from ottla.membership.controller_channel import ControllerChannel
from ottla.membership.found_logs import adopt_logs, set_strays_aside
from ottla.membership.image_follower import ImageFollower
from ottla.membership.live_config import LiveConfig
from ottla.membership.log_dir_events import LogDirEvents
from ottla.membership.log_ends import LogEnds
from ottla.membership.peers import PeerConnection, Peers
from ottla.membership.producer_ids import (
    ProducerIds,
    blocks_of_controller,
    skip_used_producer_ids,
)
from ottla.membership.registration import Prepared, Registration, prepare_store
from ottla.membership.session import RETRY_S, in_session
from ottla.membership.shutdown_evidence import ShutdownEvidence
from ottla.membership.state_changes import StateChanges
from ottla.metadata.image import BrokerImage, ClusterImage
from ottla.metadata.loading import broker_image, load_image
from ottla.replication.in_sync_replicas import Proposal
from ottla.replication.isr_expiration import IsrExpiration
from ottla.replication.leader import Leader
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.dispatch import Dispatcher
from ottla.server.fetch_sessions.session_cache import FetchSessionCache
from ottla.server.forwarding import Forwarding
from ottla.server.missing_topics import MissingTopics
from ottla.server.server import Server
from ottla.server.services import Services
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.server.transaction_verification import TransactionVerification
from ottla.server.transactional_produce import TransactionalProduce
from ottla.storage.clean_shutdown import UNKNOWN_EPOCH
from ottla.storage.errors import BrokerStartRefused
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.storage.meta_properties import read_meta_properties

if TYPE_CHECKING:
    from ottla.replication.alter_partition_manager import AlterPartitionManager
    from ottla.wire.messages.update_metadata import UpdateMetadataRequest

log = logging.getLogger(__name__)

STORE_FILE = "coordination.db"
"""In the first of `log.dirs`. A file, not a folder: Kafka takes every folder there for a log."""


class Broker:
    """One broker, from start to stop. Everything it needs of the world is passed in; what must
    survive it is in the log dirs and in the coordination store."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        disk: Disk,
        network: Network,
        workers: Workers,
        store: Store,
        rng: random.Random,
        boot_id: str,
    ) -> None:
        """`boot_id` tells one start of the machine from the next."""
        self._config = LiveConfig(config)
        self._clock = clock
        self._workers = workers
        self._store = store
        self._rng = rng
        self.broker_id = BrokerId(config.broker_id)
        self.image = ClusterImage()
        self.logs = self._make_logs(disk)
        self.replicas = self._make_replicas()
        self._alter_partitions: AlterPartitionManager | None = None
        self._log_dir_events = LogDirEvents(store, self.broker_id)
        self._evidence = ShutdownEvidence(store, self.broker_id, self.logs.folders, boot_id)
        self.registration: Registration | None = None
        self.endpoints: list[Endpoint] = []
        self._loop_lag = LoopLag(clock)
        self._config_changes = ConfigChangeListener(store)
        self._peers = Peers(
            self.broker_id,
            self.image,
            network,
            clock=clock,
            listener_name=config.inter_broker_listener_name,
            request_timeout_ms=config.request_timeout_ms,
        )
        self._log_ends = LogEnds(
            self.broker_id, self.image, self._peers, self.replicas, self.logs, clock
        )
        self.controller = self._make_controller()
        self._controller_channel = self._make_controller_channel()
        self.groups = GroupCoordinator(self.image, self._current_config, clock, rng)
        self.markers = self._make_markers()
        self.transactions = TransactionCoordinator(
            self._current_config, clock, rng, self._make_producer_ids(), self.markers
        )
        self._coordinators: dict[str, Runtime[Any]] = {
            CONSUMER_OFFSETS: self.groups,
            TRANSACTION_STATE: self.transactions,
        }
        self._follower = ImageFollower(
            self.image,
            self._config,
            self.replicas,
            self.groups,
            self._coordinators,
            on_broker_config=self._broker_config_changed,
        )
        self._state_changes = self._make_state_changes()
        self._server = Server(
            network, Dispatcher(self._make_services()), self._current_config, clock
        )
        self._is_serving = False
        self._periodic: list[asyncio.Task[None]] = []
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the broker cannot go on and should be stopped."""

    def _make_logs(self, disk: Disk) -> LogManager:
        return LogManager(
            disk=disk,
            clock=self._clock,
            workers=self._workers,
            rng=self._rng,
            config=self._config.current,
            on_failure=self._folder_failed,
            high_watermark_of=self._high_watermark_of,
        )

    def _make_replicas(self) -> ReplicaManager:
        replicas = ReplicaManager(
            self.logs,
            self._config.current,
            own_id=self.broker_id,
            image=self.image,
            broker_epochs=self._broker_epoch_of,
            connect=self._connect_to_leader,
            clock=self._clock,
            workers=self._workers,
        )
        replicas.alter_isr = self._alter_isr
        return replicas

    def _make_markers(self) -> TransactionMarkerWriter:
        return TransactionMarkerWriter(
            self.broker_id,
            self.image,
            self.replicas,
            self.groups,
            self._peers,
            self._clock,
            heard_of_all_topics=lambda: self._state_changes.heard_of_all_topics(),
        )

    def _make_producer_ids(self) -> ProducerIds:
        return ProducerIds(
            blocks_of_controller(
                self._controller_channel.allocate_producer_ids,
                self.broker_id,
                lambda: self.broker_epoch,
            )
        )

    def _make_state_changes(self) -> StateChanges:
        return StateChanges(
            self.broker_id,
            broker_epoch=lambda: self.broker_epoch,
            seen_by_controller=self._seen_by_controller,
            replicas=self.replicas,
            read_topics=self._config_changes.read_topics,
            topic_config=lambda topic: self._config.of_topic(self.image, topic),
            coordinators=self._coordinators,
            update_image=self._update_image,
            clock=self._clock,
        )

    def _make_controller(self) -> ClusterController:
        return ClusterController(
            self._store,
            self.broker_id,
            config=self._current_config,
            clock=self._clock,
            rng=self._rng,
            connect=self._connect_as_controller,
            ask_log_ends=self._log_ends.ask,
            shows_config=self._config_changes.shows,
            check_topic_config=lambda overrides: validate_overrides(
                overrides, self._config.current
            ),
            changes=self.replicas.changes,
        )

    def _make_controller_channel(self) -> ControllerChannel:
        return ControllerChannel(self.broker_id, self.image, self.controller, self._peers)

    def _make_services(self) -> Services:
        verification = TransactionVerification(
            self.broker_id, self.image, self.transactions, self._peers
        )
        slot_count = self._config.current.max_incremental_fetch_session_cache_slots
        return Services(
            broker_id=self.broker_id,
            live_config=self._config,
            image=self.image,
            controller=self.controller,
            forwarding=Forwarding(self.broker_id, self.image, self._peers, self._clock),
            missing_topics=MissingTopics(self._clock),
            groups=self.groups,
            transactions=self.transactions,
            markers=self.markers,
            verification=verification,
            transactional_produce=TransactionalProduce(
                self.replicas, verification, self._current_config
            ),
            replicas=self.replicas,
            state_changes=self._state_changes,
            log_ends=self._log_ends,
            logs=self.logs,
            fetch_sessions=FetchSessionCache(self._clock, self._rng, slot_count=slot_count),
            clock=self._clock,
            loop_lag=self._loop_lag,
            workers=self._workers,
            settings_shown=self._config_changes.caught_up,
            changes_applied=self._follower.applied,
            topic_applied=self._follower.topic_applied,
            topic_made=self._follower.topic_made,
        )

    async def start(self, passed: Callable[[str], None] = lambda part: None) -> None:
        """Raises BrokerStartRefused, StoreError, KafkaError or OSError, all with a message for
        the operator, when the broker cannot serve. A store that was reached once and goes away is
        waited for. `passed` is told what has been done, for whoever measures."""
        self.logs.lock()
        self._check_first_folder()
        passed("log dirs")
        await self._store.open()
        prepared = await in_session(self._store, self._prepare_store)
        passed("store")
        await self.logs.start(
            broker_id=self.broker_id,
            cluster_id=prepared.cluster_id,
            topic_configs=lambda topic: self._config.of_topic(self.image, topic),
        )
        await in_session(self._store, self._skip_used_producer_ids)
        if not prepared.adopts_logs:
            await set_strays_aside(self.logs, self.image, self.broker_id)
        passed("logs")
        self._listen()
        await self._register()
        await self._join_cluster(passed, adopts_logs=prepared.adopts_logs)
        self._periodic.append(asyncio.create_task(self._checkpoint_high_watermarks()))
        isr_expiration = IsrExpiration(self.replicas.leaders, self._clock)
        self._periodic.append(asyncio.create_task(isr_expiration.run()))
        self._periodic.append(asyncio.create_task(self._loop_lag.run()))
        passed("partitions")

    async def _prepare_store(self) -> Prepared:
        """And loads the image as the store has it now: settings, and who has which replica. The
        controller tells everything anew when this broker has registered."""
        prepared = await prepare_store(
            self._store, self._rng, cluster_id=self._known_cluster_id(self.logs.folders)
        )
        await self._config_changes.begin()
        self.image.become(await load_image(self._store))
        self.image.cluster_id = prepared.cluster_id
        self._config.take_dynamic(self.image)
        return prepared

    async def _skip_used_producer_ids(self) -> None:
        await skip_used_producer_ids(self._store, self.broker_id, self._last_producer_id())

    async def _join_cluster(self, passed: Callable[[str], None], *, adopts_logs: bool) -> None:
        """Returns when a controller, this broker or another, has told what to lead and follow."""
        self._config_changes.follow(self.image)
        self._follower.start()
        await self.controller.start()
        passed("controller and listeners")
        await self.controller.own_broker_told()
        if adopts_logs:
            await self._adopt_logs()
        self._serve()  # Another controller reaches this broker by its listener.
        await self._state_changes.told()
        await self._follower.applied()

    async def _adopt_logs(self) -> None:
        """Again when the store failed it: the registration begins another session, and somebody is
        elected in it."""
        while True:
            try:
                await adopt_logs(
                    self._store,
                    self.logs,
                    self.image,
                    self.broker_id,
                    self.controller.topics.create,
                )
            except (SessionExpired, ConnectionLost) as error:
                log.warning("logs are taken over when the coordination store is back: %s", error)
            except KafkaError as error:
                if error.code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                    raise
                log.warning("logs are not taken over yet: %s", error)
            else:
                return
            await asyncio.sleep(RETRY_S)
            await self.controller.own_broker_told()  # The image may show now what was made.

    def _serve(self) -> None:
        self._server.start()
        self._is_serving = True

    async def stop(self) -> None:
        """A clean stop: the next start need not recover anything. Also after a start that
        failed halfway."""
        if self._is_serving:
            await self._hand_over_leaderships()
        self._server.close()
        for task in self._periodic:
            task.cancel()
        if self.registration is not None:
            await self.registration.close()
        await self.controller.close()
        await self._state_changes.close()
        if self._alter_partitions is not None:
            await self._alter_partitions.close()
        await self._config_changes.close()
        await self._follower.close()
        await self.transactions.close()
        await self.groups.close()
        await self._log_dir_events.close()
        await self._evidence.close()
        self._peers.close()
        await self.replicas.close()
        await self.logs.close(broker_epoch=self._evidence.kept_epoch)
        await self._store.close()

    async def _hand_over_leaderships(self) -> None:
        config = self._config.current
        if config.controlled_shutdown_enable and len(self.image.brokers) > 1:
            from ottla.membership.controlled_shutdown import hand_over_leaderships

            await hand_over_leaderships(
                self._controller_channel,
                self.image,
                self.broker_id,
                lambda: self.broker_epoch,
                config,
            )

    # -- start-up -------------------------------------------------------------------------

    def _listen(self) -> None:
        advertised = {
            listener.name: listener for listener in self._config.current.advertised_listeners
        }
        for listener in self._config.current.listeners:
            port = self._server.listen(listener.name, listener.host, listener.port)
            shown = advertised.get(listener.name)
            if shown is not None:
                self.endpoints.append(
                    Endpoint(
                        listener.name,
                        listener.security_protocol,
                        shown.host or socket.gethostname(),
                        shown.port or port,
                    )
                )

    async def _register(self) -> None:
        async def renewed(broker: BrokerImage) -> None:
            self._keep_evidence()

        info = BrokerInfo(
            tuple(self.endpoints),
            rack=self._config.current.broker_rack,
            timestamp_ms=self._clock.now_ms(),
            unclean_log_dirs=await in_session(self._store, self._evidence.unclean_log_dirs),
            min_insync_replicas=self._config.current.with_dynamic({}, {}).min_insync_replicas,
        )
        for path in info.unclean_log_dirs:
            log.warning("logs in %s may have lost their last records", path)
        assert self.image.cluster_id is not None, "the store was prepared"
        self.registration = Registration(
            self._store,
            self.broker_id,
            info,
            self.image.cluster_id,
            on_renewed=renewed,
            on_failure=self._fail,
            changes=self.replicas.changes,
        )
        await self.registration.start()
        self._keep_evidence()

    def _keep_evidence(self) -> None:
        if self.registration is not None and not self.registration.is_unclean:
            self._evidence.keep(self.registration.epoch)

    def _check_first_folder(self) -> None:
        """Where the other log dirs are in use and the first is empty, its disk is not mounted: it
        had the store of all topics. A new store would make strays of all logs when it is back."""
        config = self._config.current
        if config.ottla_coordination_file is not None or config.zookeeper_connect is not None:
            return  # It is elsewhere.
        first, *others = self.logs.folders
        if first.failure is None and not first.disk.exists(f"{first.path}/{STORE_FILE}"):
            used = [
                folder.path
                for folder in others
                if folder.failure is None and read_meta_properties(folder.disk, folder.path)
            ]
            if used and read_meta_properties(first.disk, first.path) is None:
                raise BrokerStartRefused(
                    f"{first.path} is new, but {', '.join(used)} is not: the first of log.dirs "
                    f"holds the store of all topics, {STORE_FILE}. Mount its disk, or move that "
                    "file there, or put a new log dir last"
                )

    def _known_cluster_id(self, folders: Sequence[LogFolder]) -> str | None:
        for folder in folders:
            if folder.failure is None:
                found = read_meta_properties(folder.disk, folder.path)
                if found is not None and found.cluster_id is not None:
                    return found.cluster_id
        return None

    def _last_producer_id(self) -> ProducerId:
        """That the logs know. The store has given out all of them, unless a log came from another
        cluster, or the store was lost."""
        known = (max(each.producer_state.producers, default=-1) for each in self.logs.logs.values())
        return ProducerId(max(known, default=-1))

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    # -- while it runs ------------------------------------------------------------------------

    async def _checkpoint_high_watermarks(self) -> None:
        interval_s = self._config.current.replica_high_watermark_checkpoint_interval_ms / 1000
        while True:
            await asyncio.sleep(interval_s)
            await self.replicas.checkpoint_high_watermarks()

    def _folder_failed(self, folder: LogFolder, logs: list[Log]) -> None:
        log.error("%d partitions are offline with %s", len(logs), folder.path)
        if logs:
            self._log_dir_events.tell()
        for each in logs:
            coordinator = self._coordinators.get(each.topic_partition.topic)
            if coordinator is not None:
                # Later: it may be its own write that has failed.
                number = each.topic_partition.partition
                asyncio.get_running_loop().call_soon(coordinator.log_failed, number)
        if all(each.failure is not None for each in self.logs.folders):
            self._fail("every log dir is offline")

    @property
    def broker_epoch(self) -> int:
        """With which it is registered: another one after each start, and after a lost session."""
        return UNKNOWN_EPOCH if self.registration is None else self.registration.epoch

    def _broker_epoch_of(self, broker_id: BrokerId) -> int | None:
        if broker_id == self.broker_id:
            return self.broker_epoch
        found = self.image.brokers.get(broker_id)
        return None if found is None else found.epoch

    def _seen_by_controller(self, broker_epoch: int) -> None:
        if self.registration is not None:
            was_unclean = self.registration.is_unclean
            self.registration.seen_by_controller(broker_epoch)
            if was_unclean:
                self._keep_evidence()

    def _current_config(self) -> BrokerConfig:
        return self._config.current

    def _broker_config_changed(self) -> None:
        if self._config.current.unclean_leader_election_enable:
            self.controller.unclean_elections_allowed()

    async def _update_image(self, request: UpdateMetadataRequest) -> None:
        from ottla.metadata.update_metadata import update_image

        await update_image(self.image, request, Slices(self._clock))

    def _alter_isr(self, leader: Leader, proposal: Proposal) -> None:
        if self._alter_partitions is None:
            # A broker that is alone never asks: its start does not pay for it.
            from ottla.replication.alter_partition_manager import AlterPartitionManager

            self._alter_partitions = AlterPartitionManager(
                self.broker_id,
                own_epoch=lambda: self.broker_epoch,
                ask_controller=self._controller_channel.alter_partition,
            )
        self._alter_partitions.submit(leader, proposal)

    async def _connect_to_leader(self, broker_id: BrokerId) -> PeerConnection:
        """To fetch from it."""
        return await self._peers.open(broker_id, f"broker-{self.broker_id}-fetcher")

    async def _connect_as_controller(self, broker: LiveBroker) -> BrokerConnection:
        if broker.id == self.broker_id:
            return OwnBroker(self._state_changes)
        image = broker_image(broker.id, broker.info, broker.epoch)
        return await self._peers.open_to(image, f"broker-{self.broker_id}-controller")

    def _high_watermark_of(self, of: Log) -> int:
        return self.replicas.high_watermark_of(of)
