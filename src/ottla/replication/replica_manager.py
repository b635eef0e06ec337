"""The partitions of this broker."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.kernel.slices import Slices, taking
from ottla.kernel.workers import Workers
from ottla.replication.append_memory import AppendMemory
from ottla.replication.follower import Follower
from ottla.replication.in_sync_replicas import BrokerEpochs, InSyncReplicas
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.storage.errors import StorageFailure
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


class ReplicaManager:
    """Owned by the broker. Knows only partitions that this broker has a replica of; after a
    crash it is filled again from the coordination store."""

    def __init__(
        self,
        logs: LogManager,
        *,
        own_id: BrokerId,
        broker_epochs: BrokerEpochs,
        clock: Clock,
        workers: Workers,
    ) -> None:
        self._logs = logs
        self._own_id = own_id
        self._broker_epochs = broker_epochs
        self._clock = clock
        self._workers = workers
        self._memory = AppendMemory()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._topic_names: dict[TopicId, str] = {}
        self._offline: set[TopicPartition] = set()
        """Whose logs could not be opened."""
        self._checks_records = True
        self._lag_time_max_s = 0.0

    def partition(self, topic: str, index: int) -> Partition:
        """That this broker leads. Raises KafkaError where there is nothing to write to or read
        from."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            if (topic, index) in self._offline:
                raise StorageFailure(f"the log dir of {topic}-{index} is offline")
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"This server does not host this topic-partition. ({topic}-{index})",
            )
        if partition.log.folder.failure is not None:
            partition.log.folder.check_online()
        partition.leader  # noqa: B018  # Raises NOT_LEADER_OR_FOLLOWER.
        return partition

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker has a replica of it, on a disk that has failed."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return (topic, index) in self._offline
        return partition.log.folder.failure is not None

    def partition_by_id(self, topic_id: TopicId, index: int) -> Partition:
        name = self._topic_names.get(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        return self.partition(name, index)

    def topic_name(self, topic_id: TopicId) -> str | None:
        return self._topic_names.get(topic_id)

    async def become_leader(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        *,
        leader_epoch: int,
        replicas: tuple[BrokerId, ...],
        isr: tuple[BrokerId, ...],
        partition_epoch: int,
        is_new: bool,
    ) -> Partition:
        """Opens the partition's log, or makes it, and leads it from now on. Raises
        `StorageFailure`; then the partition is offline until the broker starts anew."""
        partition = await self._open(topic_partition, topic_id, config, is_new=is_new)
        async with partition.lane:
            await partition.end_role()
            in_sync = InSyncReplicas(
                self._own_id,
                replicas=replicas,
                isr=isr,
                partition_epoch=partition_epoch,
                log_end_offset=partition.log.log_end_offset,
                lag_time_max_s=self._lag_time_max_s,
                broker_epochs=self._broker_epochs,
                now_s=self._clock.monotonic_s(),
            )
            leader = Leader(
                partition,
                leader_epoch,
                in_sync,
                clock=self._clock,
                workers=self._workers,
                memory=self._memory,
                checks_records=self._checks_records,
            )
            partition.lead(leader)
        return partition

    async def become_follower(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        *,
        leader_id: BrokerId,
        leader_epoch: int,
        is_new: bool,
    ) -> Partition:
        """As `become_leader`: what the leader has is to be fetched from now on."""
        partition = await self._open(topic_partition, topic_id, config, is_new=is_new)
        async with partition.lane:
            await partition.end_role()
            partition.follow(
                Follower(
                    partition,
                    leader_id,
                    leader_epoch,
                    checkpoint=self._logs.checkpoint_recovery_points,
                )
            )
        return partition

    async def _open(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        *,
        is_new: bool,
    ) -> Partition:
        """A log of another topic of that name is set aside."""
        self._topic_names[topic_id] = topic_partition.topic
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            partition.log.set_config(config)
            return partition
        self._offline.add(topic_partition)
        await self._set_others_aside(topic_partition, topic_id)
        log = self._logs.get(topic_partition)
        if log is None:
            log = self._logs.create_log(topic_partition, topic_id, config, is_new=is_new)
        else:
            self._logs.assign_topic_id(log, topic_id)
        log.set_config(config)
        partition = self._partitions[topic_partition] = Partition(topic_id, log)
        self._offline.discard(topic_partition)
        return partition

    async def _set_others_aside(self, topic_partition: TopicPartition, topic_id: TopicId) -> None:
        """A log that was found under this name and is another topic's: its records are kept, and
        never served as those of this one."""
        log = self._logs.get(topic_partition)
        if log is not None and log.topic_id not in (None, topic_id):
            logger.warning("%s belongs to an earlier topic: setting it aside", log.path)
            await self._logs.set_aside(topic_partition)

    def set_broker_config(self, config: BrokerConfig) -> None:
        """What holds for the producers of all logs."""
        self._logs.producer_config.set(config)
        self._checks_records = config.ottla_produce_check_records
        self._lag_time_max_s = config.replica_lag_time_max_ms / 1000
        for partition in self._partitions.values():
            if partition.is_led:
                partition.leader.checks_records = self._checks_records
            partition.config_changed()

    def set_configs(self, configs: Mapping[str, TopicConfig]) -> None:
        """Of topics, by their names."""
        for partition in self._partitions.values():
            config = configs.get(partition.topic_partition.topic)
            if config is not None:
                partition.log.set_config(config)
                partition.config_changed()

    async def delete(self, topic_id: TopicId, *topic_partitions: TopicPartition) -> None:
        """Stops serving the partitions of a topic, then lets their files go."""
        self._topic_names.pop(topic_id, None)
        slices = Slices(self._clock)
        gone: list[Partition] = []
        async for each in slices.of(topic_partitions):
            self._offline.discard(each)
            if (partition := self._partitions.pop(each, None)) is not None:
                gone.append(partition)
        async for partition in slices.of(taking(gone)):
            await partition.end_role()
        await self._logs.delete(*topic_partitions)

    def topic_partitions(self) -> set[TopicPartition]:
        return {partition.topic_partition for partition in self._partitions.values()}

    async def checkpoint_high_watermarks(self) -> None:
        def of(log: Log) -> int | None:
            partition = self._partitions.get(log.topic_partition)
            return None if partition is None else partition.high_watermark

        await self._logs.checkpoint_high_watermarks(of)

    def high_watermark_of(self, log: Log) -> int:
        partition = self._partitions.get(log.topic_partition)
        return log.log_end_offset if partition is None else partition.high_watermark

    async def close(self) -> None:
        for partition in self._partitions.values():
            await partition.end_role()
        await self.checkpoint_high_watermarks()
        self._partitions.clear()
