"""Brokers that do what controllers tell them, on one store in memory and in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.controller.cluster_controller import ClusterController
from ottla.controller.controller_context import ControllerContext, LiveBroker, load_context
from ottla.controller.request_batch import ALL
from ottla.controller.topic_planning import NewTopic
from ottla.controller.unclean_recovery import LogEnd
from ottla.coordination import znodes
from ottla.coordination.znodes import BrokerInfo, Endpoint, LeaderAndIsr
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.membership.registration import prepare_store, register_broker
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.store import MemoryEnsemble, MemoryStore
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicError,
)
from ottla.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest
from ottla.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from ottla.wire.schema import Request
from tests.unit.controller.contexts import SLICES, resolve


def check_topic_config(config: Mapping[str, str]) -> None:
    """One setting, enough to see that it is asked."""
    for name, value in config.items():
        if name != "retention.ms":
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown: {name}")
        if not value.isdigit():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"not a number: {value}")


class ScriptedBroker:
    """What it was told, as a real one would keep it. It refuses controllers and registrations that
    are not the latest that it knows of."""

    def __init__(self, cluster: SimulatedCluster, broker_id: int) -> None:
        self._cluster = cluster
        self.id = BrokerId(broker_id)
        self.store = MemoryStore(cluster.ensemble)
        self.controller: ClusterController
        self.epoch = -1
        self.is_running = False
        self.info = BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", f"host-{broker_id}", 9092),))
        self.requests: list[Request] = []
        self.controller_epoch = 0
        self.replicas: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self.metadata: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        self.live_brokers: list[int] = []
        self.failed_partitions: set[TopicPartition] = set()
        """On a disk that has failed."""
        self.log_ends: dict[TopicPartition, LogEnd] = {}
        self.hangs_at: set[type[Request]] = set()

    async def start(self) -> None:
        await self.store.open()
        await prepare_store(self.store, random.Random(0))
        await self.register()
        self.is_running = True
        self.controller = ClusterController(
            self.store,
            self.id,
            config=lambda: BrokerConfig(self._cluster.settings),
            clock=self._cluster.clock,
            rng=self._cluster.rng,
            connect=self._cluster.connect,
            ask_log_ends=self._cluster.ask_log_ends,
            shows_config=self._cluster.shows_config,
            check_topic_config=check_topic_config,
        )
        await self.controller.start()

    async def register(self) -> None:
        self.epoch = (await register_broker(self.store, self.id, self.info)).epoch

    async def stop(self) -> None:
        self.is_running = False
        await self.controller.close()
        await self.store.close()

    async def crash(self) -> None:
        """Nothing of it is left but its replicas."""
        self.is_running = False
        await self.controller._events.close()
        self.controller._drop()
        self.controller._is_closed = True
        await self.store.close()
        self.metadata, self.live_brokers, self.controller_epoch = {}, [], 0

    async def restart(self, *, has_lost_tail: bool = False) -> None:
        unclean = ("/data",) if has_lost_tail else ()
        self.info = self.info._replace(unclean_log_dirs=unclean)
        self.store = MemoryStore(self._cluster.ensemble)
        await self.start()

    def take(self, request: Any) -> Any:
        self.requests.append(request)
        if request.controller_epoch < self.controller_epoch:
            return _answer_to(request)(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        if request.broker_epoch < self.epoch:  # A registration may be seen here later than there.
            return _answer_to(request)(error_code=ErrorCode.STALE_BROKER_EPOCH)
        self.controller_epoch = request.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                return self._lead_or_follow(request)
            case StopReplicaRequest():
                return self._stop(request)
            case UpdateMetadataRequest():
                return self._update_metadata(request)

    def _lead_or_follow(self, request: LeaderAndIsrRequest) -> Any:
        errors = []
        for topic in request.topic_states:
            failed = LeaderAndIsrTopicError(topic_id=topic.topic_id)
            errors.append(failed)
            for state in topic.partition_states:
                each = TopicPartition(topic.topic_name, state.partition_index)
                known = self.replicas.get(each)
                assert known is None or state.leader_epoch >= known.leader_epoch, each
                is_failed = each in self.failed_partitions
                code = ErrorCode.KAFKA_STORAGE_ERROR if is_failed else ErrorCode.NONE
                failed.partition_errors.append(
                    LeaderAndIsrPartitionError(
                        partition_index=state.partition_index, error_code=code
                    )
                )
                self.replicas[each] = state
        return _answer_to(request)(topics=errors)

    def _stop(self, request: StopReplicaRequest) -> Any:
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                each = TopicPartition(topic.topic_name, state.partition_index)
                is_failed = each in self.failed_partitions
                if state.delete_partition and not is_failed:
                    self.replicas.pop(each, None)
                    self.forget(each)
                errors.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=ErrorCode.KAFKA_STORAGE_ERROR if is_failed else ErrorCode.NONE,
                    )
                )
        return _answer_to(request)(partition_errors=errors)

    def forget(self, each: TopicPartition) -> None:
        """Its log is to be deleted."""

    def _update_metadata(self, request: UpdateMetadataRequest) -> Any:
        self.live_brokers = [each.id for each in request.live_brokers]
        if request.type == ALL:
            self.metadata.clear()
        for topic in request.topic_states:
            for state in topic.partition_states:
                each = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader == -2:
                    self.metadata.pop(each, None)
                else:
                    self.metadata[each] = state
        return _answer_to(request)()


def _answer_to(request: Request) -> Any:
    from ottla.controller.channel_manager import _KINDS

    return _KINDS[type(request)].response_class  # type: ignore[index]


class _Connection:
    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._epoch = broker.epoch

    async def call(self, request: Request, response_class: type[Any], version: int) -> Any:
        await asyncio.sleep(0.001)
        if not self._broker.is_running or self._broker.epoch != self._epoch:
            raise ConnectionError("the broker is gone")
        while type(request) in self._broker.hangs_at:
            await asyncio.sleep(0.1)
        return self._broker.take(request)

    def close(self) -> None:
        pass


class SimulatedCluster:
    def __init__(self, loop: VirtualLoop, settings: Mapping[str, str]) -> None:
        self.ensemble = MemoryEnsemble()
        self.clock = VirtualClock(loop)
        self.settings = dict(settings)
        self.shown: list[str] = []
        self.hides_config = False
        self.rng = random.Random(0)
        self.brokers: dict[int, ScriptedBroker] = {}
        self.observer = MemoryStore(self.ensemble)

    async def start(self, ids: Sequence[int]) -> None:
        await self.observer.open()
        for broker_id in ids:
            await self.add(broker_id)
        await self.settle()

    async def add(self, broker_id: int) -> ScriptedBroker:
        self.brokers[broker_id] = broker = self.make_broker(broker_id)
        await broker.start()
        return broker

    def make_broker(self, broker_id: int) -> ScriptedBroker:
        return ScriptedBroker(self, broker_id)

    async def stop(self) -> None:
        for broker in self.brokers.values():
            if broker.is_running:
                await broker.stop()

    async def connect(self, to: LiveBroker) -> _Connection:
        await asyncio.sleep(0.001)
        broker = self.brokers[to.id]
        if not broker.is_running:
            raise ConnectionError("refused")
        return _Connection(broker)

    async def ask_log_ends(
        self, broker_id: BrokerId, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LogEnd]:
        await asyncio.sleep(0.01)
        broker = self.brokers[broker_id]
        if not broker.is_running:
            raise ConnectionError("refused")
        return {each: end for each, end in broker.log_ends.items() if each in partitions}

    async def shows_config(self, notification: str) -> None:
        while self.hides_config:
            await asyncio.sleep(0.1)
        self.shown.append(notification)

    async def settle(self, duration_s: float = 5.0) -> None:
        """All that is under way comes to its end."""
        await asyncio.sleep(duration_s)

    @property
    def active(self) -> ScriptedBroker:
        """The one that is controller."""
        (active,) = [
            each for each in self.brokers.values() if each.is_running and each.controller.is_active
        ]
        return active

    async def create(self, name: str, *replicas: Sequence[int], **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        assignments = list(enumerate(replicas))
        topic = NewTopic(name, assignments=assignments, config=settings)
        await self.active.controller.topics.create(topic)
        await self.settle()

    async def state(self, topic: str, partition: int = 0) -> LeaderAndIsr:
        path = znodes.partition_state_path(topic, partition)
        return znodes.decode_partition_state(path, (await self.observer.get(path)).data)

    async def check(self) -> None:
        """The controller's context is what its successor would load, and every broker knows the
        leaders."""
        controller = self.active.controller
        assert controller._active is not None
        context = controller._active.context
        loaded = await load_context(self.observer, context.controller_epoch, resolve, SLICES)
        _check_same(context, loaded)
        for broker in self.brokers.values():
            if not broker.is_running:
                continue
            assert broker.live_brokers == sorted(context.live_brokers), broker.id
            known = {each: state.leader for each, state in broker.metadata.items()}
            assert known == {
                each: committed.state.leader
                for each, committed in context.committed.items()
                if each.topic not in context.topics_to_delete
            }, broker.id


def _check_same(context: ControllerContext, loaded: ControllerContext) -> None:
    for name in (
        "live_brokers",
        "accepted_epochs",
        "topics",
        "topics_by_id",
        "committed",
        "topics_to_delete",
        "topic_configs",
    ):
        assert getattr(context, name) == getattr(loaded, name), name


def run(
    scenario: Callable[[SimulatedCluster], Awaitable[None]],
    ids: Sequence[int] = (1, 2, 3),
    settings: Mapping[str, str] | None = None,
) -> None:
    async def main(loop: VirtualLoop) -> None:
        cluster = SimulatedCluster(loop, settings or {})
        await cluster.start(ids)
        await scenario(cluster)
        await cluster.settle()
        await cluster.check()
        await cluster.stop()

    run_virtual(main)
