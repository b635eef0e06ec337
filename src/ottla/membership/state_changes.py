"""What the controller tells this broker about its replicas: LeaderAndIsr, StopReplica,
UpdateMetadata. One request after another, also where they come on several connections.

What is old is not done:

- of a controller that another one has replaced, or that has said more since then (its requests are
  numbered, unless it is one of Apache Kafka): STALE_CONTROLLER_EPOCH;
- to a run of this broker before the present one: STALE_BROKER_EPOCH (KIP-380). A request without a
  broker epoch is to nobody's: StopReplica deletes logs;
- of a leader epoch before the one that a partition is in: for that partition only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.config.topic import TopicConfig
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.kernel.slices import Slices
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from ottla.wire.messages.leader_and_isr import (
        LeaderAndIsrPartitionState,
        LeaderAndIsrRequest,
        LeaderAndIsrResponse,
        LeaderAndIsrTopicState,
    )
    from ottla.wire.messages.stop_replica import (
        StopReplicaPartitionError,
        StopReplicaPartitionState,
        StopReplicaRequest,
        StopReplicaResponse,
    )
    from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

logger = logging.getLogger(__name__)

T = TypeVar("T")

ANY_EPOCH = (-1, -2)
"""Of a partition in StopReplica: not known to the controller, or of a topic that is deleted."""


ALL_REPLICAS = 2
"""The type of a LeaderAndIsr that names every replica of this broker."""


class Coordinator(Protocol):
    """Of groups or of transactions: it has a shard in each partition of its topic that is led
    here."""

    def become_leader(self, leader: Leader) -> None: ...

    def resign(self, number: int, leader_epoch: int | None = None) -> None: ...


class StateChanges:
    """Owned by the broker. What it was told is gone in a crash; the controller tells all of it
    again when the broker registers."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        broker_epoch: Callable[[], int],
        seen_by_controller: Callable[[int], None],
        replicas: ReplicaManager,
        read_topics: Callable[[Mapping[str, TopicId]], Awaitable[None]],
        topic_config: Callable[[str], TopicConfig],
        coordinators: Mapping[str, Coordinator],
        update_image: Callable[[UpdateMetadataRequest], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """`seen_by_controller` is told the broker epoch of each request that is taken, and
        `read_topics` of its topics: after that `topic_config` knows their settings.
        `coordinators` are by the topics that they keep their state in."""
        self._own_id = own_id
        self._broker_epoch = broker_epoch
        self._seen_by_controller = seen_by_controller
        self._replicas = replicas
        self._read_topics = read_topics
        self._topic_config = topic_config
        self._coordinators = coordinators
        self._update_image = update_image
        self._clock = clock
        self._last_taken = (0, -1)
        """The controller epoch and the number of the request that was taken last."""
        self._turn = asyncio.Lock()
        self._begun: asyncio.Task[Any] | None = None
        self._waiting: dict[asyncio.Task[Any], None] = {}
        self._is_told = asyncio.Event()
        self._has_heard_of_all = asyncio.Event()

    async def told(self) -> None:
        """Waits until a controller has told this broker, since it started, who is in the cluster
        and what it leads: UpdateMetadata comes after LeaderAndIsr."""
        await self._is_told.wait()

    async def heard_of_all_topics(self) -> None:
        """Waits until the picture has all topics that there were when this broker was last told all
        of its replicas. Until then a topic that it does not know may be one that a controller of
        before had no time to tell of."""
        await self._has_heard_of_all.wait()

    async def close(self) -> None:
        """What has begun comes to its end; what waits for its turn does not begin."""
        for task in self._waiting:
            task.cancel()
        if self._begun is not None:
            await asyncio.wait([self._begun])

    async def _in_turn(self, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """One after another, each to its end, though whoever asked may be gone by then: requests
        end with their connection, and with the office of a controller here. A replica whose role
        was left half changed would begin the next one before the log stands still."""

        async def in_turn() -> T:
            async with self._turn:
                self._begun = task
                del self._waiting[task]
                try:
                    return await change()
                finally:
                    self._begun = None

        task = asyncio.get_running_loop().create_task(in_turn())
        self._waiting[task] = None
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._waiting.pop(task, None)
        if not task.cancelled():
            task.exception()  # Whoever asked hears of it, if it is still there.

    def _take(
        self, request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
    ) -> ErrorCode:
        if request.broker_epoch < self._broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        place = (request.controller_epoch, request.sequence)
        if place < self._last_taken:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._last_taken = place
        self._seen_by_controller(request.broker_epoch)
        return ErrorCode.NONE

    # LeaderAndIsr

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        return await self._in_turn(lambda: self._leader_and_isr(request))

    async def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        from ottla.wire.messages.leader_and_isr import (  # with the first request, as handlers are
            LeaderAndIsrPartitionError,
            LeaderAndIsrResponse,
            LeaderAndIsrTopicError,
        )

        error = self._take(request)
        if error:
            return LeaderAndIsrResponse(error_code=error)
        if request.type == ALL_REPLICAS:
            self._has_heard_of_all.clear()
        named = {each.topic_name: each.topic_id for each in request.topic_states}
        await self._read_topics(named)
        slices = Slices(self._clock)
        topics = []
        for topic in request.topic_states:
            config = self._topic_config(topic.topic_name)
            errors = [
                LeaderAndIsrPartitionError(
                    partition_index=state.partition_index,
                    error_code=await self._change_guarded(topic, state, config),
                )
                async for state in slices.of(topic.partition_states)
            ]
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        self._replicas.logs_made()
        if request.type == ALL_REPLICAS:
            await self._stop_all_but(request, slices)
        return LeaderAndIsrResponse(topics=topics)

    async def _stop_all_but(self, request: LeaderAndIsrRequest, slices: Slices) -> None:
        """A partition was moved away, or its topic deleted, while this broker was cut off or stood
        still: it believed that it leads, and nobody tells it otherwise. The log stays."""
        told = {
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        }
        async for topic_partition in slices.of(sorted(self._replicas.topic_partitions() - told)):
            logger.warning("%s is not to be here any more: serving it no longer", topic_partition)
            self._resign(topic_partition)
            await self._replicas.stop(topic_partition)

    async def _change_guarded(
        self,
        topic: LeaderAndIsrTopicState,
        state: LeaderAndIsrPartitionState,
        config: TopicConfig,
    ) -> ErrorCode:
        """The other partitions need not suffer from what becomes of one."""
        try:
            return await self._change(topic, state, config)
        except KafkaError as error:
            logger.error("%s-%d: %s", topic.topic_name, state.partition_index, error)
            return error.code
        except Exception:
            logger.exception("%s-%d could not change", topic.topic_name, state.partition_index)
            return ErrorCode.UNKNOWN_SERVER_ERROR

    async def _change(
        self,
        topic: LeaderAndIsrTopicState,
        state: LeaderAndIsrPartitionState,
        config: TopicConfig,
    ) -> ErrorCode:
        topic_partition = TopicPartition(topic.topic_name, state.partition_index)
        if self._own_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._replicas.is_offline(*topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR  # Until the broker starts anew.
        partition = self._replicas.hosted(topic_partition)
        if partition is None:
            # To open or make a log takes half a millisecond, and there may be ten thousand.
            await asyncio.sleep(0)
        else:
            if partition.topic_id != topic.topic_id:
                # One that was stopped is left of an earlier topic, and gives way.
                if partition.has_role:
                    return ErrorCode.INCONSISTENT_TOPIC_ID
            elif state.leader_epoch < partition.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            elif state.leader_epoch == partition.leader_epoch and partition.has_role:
                self._tell(partition, state)
                return ErrorCode.NONE
        if state.leader == self._own_id:
            await self._lead(topic_partition, topic, state, config)
        else:
            await self._follow(topic_partition, topic, state, config)
        return ErrorCode.NONE

    def _tell(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        """The role is the same: there may be news of the in-sync replicas."""
        if partition.is_led:
            partition.leader.isr_told(map(BrokerId, state.isr), state.partition_epoch)

    async def _lead(
        self,
        topic_partition: TopicPartition,
        topic: LeaderAndIsrTopicState,
        state: LeaderAndIsrPartitionState,
        config: TopicConfig,
    ) -> None:
        partition = await self._replicas.become_leader(
            topic_partition,
            topic.topic_id,
            config,
            leader_epoch=state.leader_epoch,
            replicas=tuple(map(BrokerId, state.replicas)),
            isr=tuple(map(BrokerId, state.isr)),
            partition_epoch=state.partition_epoch,
            is_new=state.is_new,
        )
        logger.debug("leading %s in epoch %d", topic_partition, state.leader_epoch)
        coordinator = self._coordinators.get(topic.topic_name)
        if coordinator is not None:
            coordinator.become_leader(partition.leader)

    async def _follow(
        self,
        topic_partition: TopicPartition,
        topic: LeaderAndIsrTopicState,
        state: LeaderAndIsrPartitionState,
        config: TopicConfig,
    ) -> None:
        self._resign(topic_partition, state.leader_epoch)
        await self._replicas.become_follower(
            topic_partition,
            topic.topic_id,
            config,
            leader_id=BrokerId(state.leader),
            leader_epoch=state.leader_epoch,
            is_new=state.is_new,
        )
        logger.debug(
            "following broker %d for %s in epoch %d",
            state.leader,
            topic_partition,
            state.leader_epoch,
        )

    def _resign(self, topic_partition: TopicPartition, leader_epoch: int | None = None) -> None:
        coordinator = self._coordinators.get(topic_partition.topic)
        if coordinator is not None:
            coordinator.resign(topic_partition.partition, leader_epoch)

    # StopReplica

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        return await self._in_turn(lambda: self._stop_replica(request))

    async def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        from ottla.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse

        error = self._take(request)
        if error:
            return StopReplicaResponse(error_code=error)
        slices = Slices(self._clock)
        answers: list[StopReplicaPartitionError] = []
        deleted: list[TopicPartition] = []
        for topic in request.topic_states:
            async for state in slices.of(topic.partition_states):
                topic_partition = TopicPartition(topic.topic_name, state.partition_index)
                code = self._reason_not_to_stop(topic_partition, state)
                if not code:
                    self._resign(topic_partition)
                    await self._replicas.stop(topic_partition)
                    if state.delete_partition:
                        deleted.append(topic_partition)
                answers.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=code,
                    )
                )
        failed = await self._replicas.delete(*deleted) if deleted else ()
        for answer in answers:
            if (answer.topic_name, answer.partition_index) in failed:
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return StopReplicaResponse(partition_errors=answers)

    def _reason_not_to_stop(
        self, topic_partition: TopicPartition, state: StopReplicaPartitionState
    ) -> ErrorCode:
        if self._replicas.is_offline(*topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._replicas.hosted(topic_partition)
        if (
            partition is not None
            and state.leader_epoch not in ANY_EPOCH
            and state.leader_epoch < partition.leader_epoch
        ):
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    # UpdateMetadata

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        return await self._in_turn(lambda: self._update_metadata(request))

    async def _update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        from ottla.wire.messages.update_metadata import UpdateMetadataResponse

        error = self._take(request)
        if not error:
            named = {each.topic_name: each.topic_id for each in request.topic_states}
            await self._read_topics(named)
            await self._update_image(request)
            self._is_told.set()
            self._has_heard_of_all.set()
        return UpdateMetadataResponse(error_code=error)
