"""The broker: the only place that puts it all together."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import resource
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.topic import validate_overrides
from ottla.controller.controller import Controller, become_controller
from ottla.controller.topics import NewTopic, TopicDefaults
from ottla.coordination.image import (
    BrokersChanged,
    ClusterImage,
    load_image,
)
from ottla.coordination.sqlite import SqliteStore
from ottla.coordination.store import SessionState, Store
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.transactions.transaction_coordinator import TransactionCoordinator
from ottla.kernel.clock import Clock, SystemClock
from ottla.kernel.disk import Disk, SystemDisk
from ottla.kernel.garbage import freeze_survivors
from ottla.kernel.ids import BrokerId, ProducerId, TopicId
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.kernel.network import SystemNetwork
from ottla.kernel.transport import Network
from ottla.kernel.workers import ThreadWorkers, Workers
from ottla.membership.image_follower import ImageFollower
from ottla.membership.live_config import LiveConfig
from ottla.membership.producer_ids import ProducerIds
from ottla.membership.registration import end_adoption, prepare_store, register_broker
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.dispatch import Dispatcher
from ottla.server.fetch_sessions.session_cache import FetchSessionCache
from ottla.server.server import Server
from ottla.server.services import Services
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.server.transactional_produce import TransactionalProduce
from ottla.storage.errors import BrokerStartRefused
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.storage.meta_properties import read_meta_properties

log = logging.getLogger(__name__)

STORE_FILE = "coordination.db"
"""In the first of `log.dirs`. A file, not a folder: Kafka takes every folder there for a log."""

OPEN_FILES_WANTED = 1 << 20

EXIT_FAILED = 1


class ReadyInfo(NamedTuple):
    """What a person who started the broker wants to know."""

    broker_id: int
    addresses: list[str]
    data_dirs: list[str]


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
    ) -> None:
        self._config = LiveConfig(config)
        self._clock = clock
        self._network = network
        self._workers = workers
        self._store = store
        self._rng = rng
        self.broker_id = BrokerId(config.broker_id)
        self.logs = LogManager(
            disk=disk,
            clock=clock,
            workers=workers,
            rng=rng,
            config=config,
            on_failure=self._folder_failed,
            high_watermark_of=self._high_watermark_of,
        )
        self.replicas = ReplicaManager(
            self.logs,
            own_id=self.broker_id,
            broker_epochs=self._broker_epoch_of,
            clock=clock,
            workers=workers,
        )
        self._producer_ids = ProducerIds(store, self.broker_id)
        self.endpoints: list[Endpoint] = []
        self._image: ClusterImage | None = None
        self._controller: Controller | None = None
        self._server: Server | None = None
        self.groups: GroupCoordinator | None = None
        self.markers: TransactionMarkerWriter | None = None
        self.transactions: TransactionCoordinator | None = None
        self._follower: ImageFollower | None = None
        self._high_watermarks: asyncio.Task[None] | None = None
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the broker cannot go on and should be stopped."""

    async def start(self, passed: Callable[[str], None] = lambda part: None) -> None:
        """Raises BrokerStartRefused, StoreError, KafkaError or OSError, all with a message for
        the operator, when the broker cannot serve. `passed` is told what has been done, for
        whoever measures."""
        self.logs.lock()
        self._check_first_folder()
        passed("log dirs")
        await self._store.open()
        self._store.on_session(self._session_changed)
        store = await prepare_store(
            self._store, self._rng, cluster_id=self._known_cluster_id(self.logs.folders)
        )
        self._image = image = await load_image(self._store)
        image.cluster_id = store.cluster_id
        self._config.take_dynamic(image)
        passed("store")
        await self.logs.start(
            broker_id=self.broker_id,
            cluster_id=store.cluster_id,
            topic_configs=lambda topic: self._config.of_topic(image, topic),
        )
        await self._producer_ids.skip(self._last_producer_id())
        passed("logs")
        config = self._config.current
        self._controller = controller = await become_controller(
            self._store,
            image,
            self.broker_id,
            clock=self._clock,
            rng=self._rng,
            defaults=TopicDefaults(config.num_partitions, config.default_replication_factor),
            check_topic_config=lambda overrides: validate_overrides(
                overrides, self._config.current
            ),
        )
        self.groups = GroupCoordinator(image, lambda: self._config.current, self._clock, self._rng)
        self.markers = markers = TransactionMarkerWriter(
            image, self.replicas, self.groups, self._clock
        )
        self.transactions = TransactionCoordinator(
            lambda: self._config.current, self._clock, self._rng, self._producer_ids, markers
        )
        self._follower = follower = ImageFollower(
            self.broker_id,
            image,
            self._config,
            self.replicas,
            self.groups,
            {CONSUMER_OFFSETS: self.groups, TRANSACTION_STATE: self.transactions},
        )
        self._server = server = Server(
            self._network,
            Dispatcher(self._make_services(image, controller, follower)),
            lambda: self._config.current,
            self._clock,
        )
        self._listen(server)
        await self._register(image)
        passed("controller and listeners")
        if not store.adopts_logs:
            await self._set_strays_aside(image)
        await follower.start()
        if store.adopts_logs:
            await self._adopt_logs(image, controller)
            await follower.applied()
        self._high_watermarks = asyncio.create_task(self._checkpoint_high_watermarks())
        server.start()
        passed("partitions")

    def _make_services(
        self,
        image: ClusterImage,
        controller: Controller,
        follower: ImageFollower,
    ) -> Services:
        assert self.groups is not None
        assert self.transactions is not None
        assert self.markers is not None
        slot_count = self._config.current.max_incremental_fetch_session_cache_slots
        return Services(
            broker_id=self.broker_id,
            live_config=self._config,
            image=image,
            topics=controller.topics,
            configs=controller.configs,
            groups=self.groups,
            transactions=self.transactions,
            markers=self.markers,
            transactional_produce=TransactionalProduce(
                self.replicas, self.transactions, lambda: self._config.current
            ),
            replicas=self.replicas,
            logs=self.logs,
            fetch_sessions=FetchSessionCache(self._clock, self._rng, slot_count=slot_count),
            clock=self._clock,
            workers=self._workers,
            changes_applied=follower.applied,
            topic_applied=follower.topic_applied,
        )

    async def stop(self) -> None:
        """A clean stop: the next start need not recover anything. Also after a start that
        failed halfway."""
        if self._server is not None:
            self._server.close()
        if self._high_watermarks is not None:
            self._high_watermarks.cancel()
        if self._controller is not None:
            await self._controller.close()
        if self._follower is not None:
            await self._follower.close()
        if self.transactions is not None:
            await self.transactions.close()
        if self.groups is not None:
            await self.groups.close()
        await self.replicas.close()
        await self.logs.close()
        await self._store.close()

    # -- start-up -------------------------------------------------------------------------

    def _listen(self, server: Server) -> None:
        advertised = {
            listener.name: listener for listener in self._config.current.advertised_listeners
        }
        for listener in self._config.current.listeners:
            port = server.listen(listener.name, listener.host, listener.port)
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

    async def _register(self, image: ClusterImage) -> None:
        info = BrokerInfo(
            tuple(self.endpoints),
            rack=self._config.current.broker_rack,
            timestamp_ms=self._clock.now_ms(),
        )
        registered = await register_broker(self._store, self.broker_id, info)
        image.apply(BrokersChanged({**image.brokers, self.broker_id: registered}))

    def _check_first_folder(self) -> None:
        """Where the other log dirs are in use and the first is empty, its disk is not mounted: it
        had the store of all topics. A new store would make strays of all logs when it is back."""
        if self._config.current.ottla_coordination_file is not None:
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

    async def _set_strays_aside(self, image: ClusterImage) -> None:
        """Logs of no topic: a crash between the deletion of a topic and that of its logs leaves
        them behind, or somebody copied them here. Nobody can say which, so they are kept."""
        strays = []
        for topic_partition, stray in self.logs.logs.items():
            topic = image.topics.get(topic_partition.topic)
            if (
                topic is None
                or topic_partition.partition >= len(topic.partitions)
                or stray.topic_id not in (None, topic.id)
            ):
                log.warning("%s belongs to no topic: setting it aside", stray.path)
                strays.append(topic_partition)
        await self.logs.set_aside(*strays)

    async def _adopt_logs(self, image: ClusterImage, controller: Controller) -> None:
        """Logs, and no store that knows of their topics: a log dir that Apache Kafka wrote, or one
        whose store was lost. The folders tell names, partitions and ids; settings are lost."""
        for folder in self.logs.folders:
            if folder.failure is not None:
                raise BrokerStartRefused(
                    f"what there is to take over is not known: {folder.failure}"
                )
        counts: dict[str, int] = {}
        ids: dict[str, TopicId | None] = {}
        # Leaders go on where those before them were: an epoch of 0 would drop what the log knows of
        # epochs, and partitions would refuse the markers of a transaction coordinator as old ones.
        epochs: dict[str, dict[int, int]] = {}
        for (topic, number), found in self.logs.logs.items():
            epochs.setdefault(topic, {})[number] = found.leader_epochs.latest_epoch + 1
            counts[topic] = max(counts.get(topic, 0), number + 1)
            ids[topic] = ids.get(topic) or found.topic_id
        for topic, count in counts.items():
            if topic in image.topics:
                continue  # A crash came after it.
            log.warning("taking over topic %s with %d partitions from its logs", topic, count)
            await controller.topics.create(
                NewTopic(
                    topic,
                    assignments=[(number, (self.broker_id,)) for number in range(count)],
                    id=ids[topic],
                    leader_epochs=epochs[topic],
                )
            )
        await end_adoption(self._store)

    def _session_changed(self, state: SessionState) -> None:
        """Without its session this broker is not known as one, and must not act as one."""
        if state is SessionState.EXPIRED:
            self._fail("its session in the coordination store has expired")

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
        if all(each.failure is not None for each in self.logs.folders):
            self._fail("every log dir is offline")

    def _broker_epoch_of(self, broker_id: BrokerId) -> int | None:
        found = self._image.brokers.get(broker_id) if self._image is not None else None
        return None if found is None else found.epoch

    def _high_watermark_of(self, of: Log) -> int:
        return self.replicas.high_watermark_of(of)


def _store_path(config: BrokerConfig, disk: SystemDisk) -> str:
    if config.ottla_coordination_file is None:
        return os.path.join(config.log_dirs[0], STORE_FILE)
    disk.make_folders(os.path.dirname(os.path.abspath(config.ottla_coordination_file)))
    return config.ottla_coordination_file


async def _run(
    config: BrokerConfig, on_ready: Callable[[ReadyInfo], None], passed: Callable[[str], None]
) -> int:
    clock = SystemClock()
    disk = SystemDisk()
    workers = ThreadWorkers()
    broker = Broker(
        config,
        clock=clock,
        disk=disk,
        network=SystemNetwork(
            workers,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        ),
        workers=workers,
        store=SqliteStore(_store_path(config, disk), clock=clock, disk=disk, workers=workers),
        rng=random.SystemRandom(),
    )
    stopping = asyncio.Event()
    _stop_by_signals(stopping)
    passed("event loop")
    try:
        if not await _finishes(broker.start(passed), unless=stopping):
            return 0
        freeze_survivors()
        gc.enable()
        on_ready(
            ReadyInfo(
                broker_id=broker.broker_id,
                addresses=[address_text(endpoint) for endpoint in broker.endpoints],
                data_dirs=list(config.log_dirs),
            )
        )
        broker.failed.add_done_callback(lambda _: stopping.set())
        await stopping.wait()
        if broker.failed.done():
            log.error("stopping: %s", broker.failed.result())
            return EXIT_FAILED
    finally:
        await broker.stop()
        workers.close()
    return 0


def _stop_by_signals(stopping: asyncio.Event) -> None:
    """SIGTERM or SIGINT for the second time does not wait: the next start recovers what a clean
    stop would have saved it. A terminal that is closed says so, and its shell again."""
    loop, is_told = asyncio.get_running_loop(), False

    def stop() -> None:
        nonlocal is_told
        if is_told:
            os._exit(0)
        is_told = True
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        loop.add_signal_handler(signal.SIGHUP, stopping.set)


async def _finishes(start: Coroutine[Any, Any, None], *, unless: asyncio.Event) -> bool:
    """Recovery after a crash may take minutes: whoever wants the broker to stop need not wait."""
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(unless.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    await asyncio.wait([starting])
    return False


def address_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def run(
    config: BrokerConfig,
    *,
    on_ready: Callable[[ReadyInfo], None],
    passed: Callable[[str], None] = lambda part: None,
) -> int:
    """Runs a broker in this process until SIGTERM, SIGINT or SIGHUP."""
    _raise_open_files_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(config, on_ready, passed))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # Stock asyncio serves as well, only slower.
    return uvloop.new_event_loop


def _raise_open_files_limit() -> None:
    """A broker has a file for each segment in use and a socket for each client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
