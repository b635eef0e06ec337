"""The partitions of this broker."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.kernel.slices import Slices, taking
from ottla.kernel.state_change_log import StateChangeLog
from ottla.kernel.workers import Workers
from ottla.metadata.image import ClusterImage
from ottla.replication.append_memory import AppendMemory
from ottla.replication.follower import Follower
from ottla.replication.in_sync_replicas import BrokerEpochs, InSyncReplicas
from ottla.replication.leader import AlterIsr, Leader
from ottla.replication.partition import Partition
from ottla.replication.remote_replica import UNKNOWN_BROKER_EPOCH
from ottla.replication.replication_quota import ReplicationQuota
from ottla.storage.errors import StorageFailure
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.replication.replica_fetcher import LeaderConnection, ReplicaFetchers

logger = logging.getLogger(__name__)


class ReplicaManager:
    """Owned by the broker. Knows only partitions that this broker has a replica of; after a
    crash it is filled again from the coordination store."""

    def __init__(
        self,
        logs: LogManager,
        config: BrokerConfig,
        *,
        own_id: BrokerId,
        image: ClusterImage,
        broker_epochs: BrokerEpochs,
        connect: Callable[[BrokerId], Awaitable[LeaderConnection]],
        clock: Clock,
        workers: Workers,
        changes: StateChangeLog | None = None,
    ) -> None:
        """`connect` opens a connection to another broker, to fetch from. Raises OSError or
        KafkaError."""
        self._logs = logs
        self._own_id = own_id
        self._image = image
        self._broker_epochs = broker_epochs
        self._connect = connect
        self._clock = clock
        self._workers = workers
        self.changes = changes or StateChangeLog(own_id)
        self._memory = AppendMemory()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._topic_names: dict[TopicId, str] = {}
        self._offline: dict[TopicPartition, TopicId] = {}
        """Whose logs could not be opened."""
        self.alter_isr: AlterIsr | None = None
        """Set before the first partition is led, where there are other brokers."""
        self._fetchers: ReplicaFetchers | None = None
        """From the first partition on that this broker follows."""
        self._config = config
        self.leader_quota = self._new_quota()
        """Of what is served to followers that are named in a throttle."""
        self._follower_quota = self._new_quota()
        self._set_quotas()

    def _new_quota(self) -> ReplicationQuota:
        return ReplicationQuota(
            self._own_id,
            self._clock,
            window_count=self._config.replication_quota_window_num,
            window_s=self._config.replication_quota_window_size_seconds,
        )

    def _set_quotas(self) -> None:
        config = self._config
        self.leader_quota.bytes_per_second = config.leader_replication_throttled_rate
        self._follower_quota.bytes_per_second = config.follower_replication_throttled_rate

    def partition(self, topic: str, index: int) -> Partition:
        """That this broker leads. Raises KafkaError where there is nothing to write to or read
        from."""
        partition = self._partitions.get((topic, index))
        if partition is None or partition.log.folder.failure is not None:
            raise self._not_here(topic, index)
        partition.leader  # noqa: B018  # Raises NOT_LEADER_OR_FOLLOWER.
        return partition

    def replica(self, topic: str, index: int) -> Partition:
        """That this broker leads or follows: consumers read from either. Raises KafkaError as
        `partition` does."""
        partition = self._partitions.get((topic, index))
        if partition is None or partition.log.folder.failure is not None:
            raise self._not_here(topic, index)
        if not partition.has_role:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker neither leads nor follows {topic}-{index}.",
            )
        return partition

    def _not_here(self, topic: str, index: int) -> KafkaError:
        if self.is_offline(topic, index):
            return StorageFailure(f"the log of {topic}-{index} is offline")
        if self._image.partition(topic, index) is not None:
            return KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker has no replica of {topic}-{index}.",
            )
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"This server does not host this topic-partition. ({topic}-{index})",
        )

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker has a replica of it, damaged or on a disk that has failed."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return (topic, index) in self._offline
        return partition.log.folder.failure is not None

    def replica_by_id(self, topic_id: TopicId, index: int) -> Partition:
        name = self.topic_name(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        return self.replica(name, index)

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Of any topic of the cluster. Of one that has just been made this broker may know what it
        has of it before it knows of the topic."""
        name = self._topic_names.get(topic_id)
        if name is None:
            topic = self._image.topics_by_id.get(topic_id)
            return None if topic is None else topic.name
        return name

    def hosted(self, topic_partition: TopicPartition) -> Partition | None:
        """Whoever leads it."""
        return self._partitions.get(topic_partition)

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
            await self._end_role(partition, syncs=True)
            in_sync = InSyncReplicas(
                self._own_id,
                replicas=replicas,
                isr=isr,
                partition_epoch=partition_epoch,
                log_end_offset=partition.log.log_end_offset,
                lag_time_max_s=self._config.replica_lag_time_max_ms / 1000,
                broker_epochs=self._broker_epochs,
                now_s=self._clock.monotonic_s(),
                changed=partial(self.changes.isr_changed, topic_partition),
            )
            leader = Leader(
                partition,
                leader_epoch,
                in_sync,
                clock=self._clock,
                workers=self._workers,
                memory=self._memory,
                alter_isr=self.alter_isr,
                checks_records=self._config.ottla_produce_check_records,
            )
            partition.lead(leader)
        self.changes.replica_changed(topic_partition, "leads", leader_epoch)
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
        """As `become_leader`: what the leader has is fetched from now on, if there is one."""
        partition = await self._open(topic_partition, topic_id, config, is_new=is_new)
        async with partition.lane:
            await self._end_role(partition, syncs=True)
            partition.follow(
                Follower(
                    partition,
                    leader_id,
                    leader_epoch,
                    checkpoint=self._logs.checkpoint_recovery_points,
                    truncated=partial(self.changes.log_truncated, topic_partition),
                )
            )
            if leader_id >= 0:
                self._fetchers = self._fetchers or self._new_fetchers()
                self._fetchers.follow(partition)
        self.changes.replica_changed(topic_partition, f"follows {leader_id}", leader_epoch)
        return partition

    def _new_fetchers(self) -> ReplicaFetchers:
        # A broker that is alone never follows: its start does not pay for it.
        from ottla.replication.replica_fetcher import FetcherContext, ReplicaFetchers

        return ReplicaFetchers(
            FetcherContext(
                own_id=self._own_id,
                broker_epoch=self.own_epoch,
                connect=self._connect,
                config=lambda: self._config,
                quota=self._follower_quota,
                clock=self._clock,
            )
        )

    def own_epoch(self) -> int:
        """With which this broker is registered now."""
        epoch = self._broker_epochs(self._own_id)
        return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

    async def _end_role(self, partition: Partition, *, syncs: bool = False) -> None:
        """With `syncs` another role follows, which counts all that is in the log: where
        `flush.messages` asks for it, that must be synced. The last append as a follower may be on
        its way to the disk."""
        if self._fetchers is not None:
            self._fetchers.forget(partition)
        await partition.end_role()
        if syncs and partition.log.is_flush_due:
            await partition.log.flush()

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
        if partition is not None and partition.topic_id != topic_id:
            assert not partition.has_role, f"{topic_partition} is still served for another topic"
            del self._partitions[topic_partition]
            self._forget_topics({partition.topic_id})
            partition = None
        if partition is not None:
            partition.log.set_config(config)
            return partition
        self._offline[topic_partition] = topic_id
        await self._set_others_aside(topic_partition, topic_id)
        log = self._logs.get(topic_partition)
        if log is None:
            log = self._logs.create_log(topic_partition, topic_id, config, is_new=is_new)
        else:
            self._logs.assign_topic_id(log, topic_id)
        log.set_config(config)
        high_watermark = self._last_high_watermarks.pop(topic_partition, log.log_start_offset)
        partition = self._partitions[topic_partition] = Partition(topic_id, log, high_watermark)
        del self._offline[topic_partition]
        return partition

    async def _set_others_aside(self, topic_partition: TopicPartition, topic_id: TopicId) -> None:
        """A log that was found under this name and is another topic's: its records are kept, and
        never served as those of this one."""
        log = self._logs.get(topic_partition)
        if log is not None and log.topic_id not in (None, topic_id):
            logger.warning("%s belongs to an earlier topic: setting it aside", log.path)
            self._last_high_watermarks.pop(topic_partition, None)
            await self._logs.set_aside(topic_partition)

    def logs_made(self) -> None:
        """After `become_leader` or `become_follower` of all partitions of a request."""
        self._logs.logs_made()

    @cached_property
    def _last_high_watermarks(self) -> dict[TopicPartition, int]:
        """Of the last run, for logs whose role this broker has not heard of yet."""
        return self._logs.read_high_watermarks()

    def set_broker_config(self, config: BrokerConfig) -> None:
        """What holds for the producers of all logs."""
        self._logs.producer_config.set(config)
        self._config = config
        self._set_quotas()
        for partition in self._partitions.values():
            if partition.is_led:
                partition.leader.checks_records = config.ottla_produce_check_records
            partition.config_changed()

    def set_configs(self, configs: Mapping[str, TopicConfig]) -> None:
        """Of topics, by their names."""
        for partition in self._partitions.values():
            config = configs.get(partition.topic_partition.topic)
            if config is not None:
                partition.log.set_config(config)
                partition.config_changed()

    async def stop(self, topic_partition: TopicPartition) -> None:
        """It is not led, read or followed here until this broker is told to."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            async with partition.lane:
                await self._end_role(partition)
            self.changes.replica_changed(topic_partition, "stops", partition.leader_epoch)

    async def delete(self, *topic_partitions: TopicPartition) -> set[TopicPartition]:
        """Stops serving the partitions, then lets their files go. Returns those whose files may
        still be there: their disk has failed."""
        slices = Slices(self._clock)
        gone: list[Partition] = []
        topic_ids: set[TopicId] = set()
        failed: set[TopicPartition] = set()
        async for each in slices.of(topic_partitions):
            self._last_high_watermarks.pop(each, None)
            if (topic_id := self._offline.pop(each, None)) is not None:
                topic_ids.add(topic_id)
                failed.add(each)
            if (partition := self._partitions.pop(each, None)) is not None:
                topic_ids.add(partition.topic_id)
                gone.append(partition)
        self._forget_topics(topic_ids)
        async for partition in slices.of(gone):
            await self._end_role(partition)
        await self._logs.delete(*topic_partitions)
        async for partition in slices.of(taking(gone)):
            if partition.log.folder.failure is not None:
                failed.add(partition.topic_partition)
        return failed

    def _forget_topics(self, topic_ids: set[TopicId]) -> None:
        """Of which no partition is here any more."""
        left = {each.topic_id for each in self._partitions.values()} | {*self._offline.values()}
        for topic_id in topic_ids - left:
            self._topic_names.pop(topic_id, None)

    def current_leader(self, topic: str, index: int) -> tuple[BrokerId, int] | None:
        """Of a partition that this broker leads or follows, and in which leader epoch."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return None
        if partition.is_led:
            return self._own_id, partition.leader_epoch
        follower = partition.follower
        return None if follower is None else (follower.leader_id, follower.leader_epoch)

    def leaders(self) -> list[Leader]:
        """Of partitions that have followers."""
        return [
            partition.leader
            for partition in self._partitions.values()
            if partition.is_led and partition.leader.in_sync.followers
        ]

    def topic_partitions(self) -> set[TopicPartition]:
        return {partition.topic_partition for partition in self._partitions.values()}

    async def checkpoint_high_watermarks(self) -> None:
        await self._logs.checkpoint_high_watermarks(self.high_watermark_of)

    def high_watermark_of(self, log: Log) -> int:
        partition = self._partitions.get(log.topic_partition)
        if partition is not None:
            return partition.high_watermark
        return self._last_high_watermarks.get(log.topic_partition, log.log_start_offset)

    async def close(self) -> None:
        if self._fetchers is not None:
            await self._fetchers.close()
        for partition in self._partitions.values():
            await partition.end_role()
        await self.checkpoint_high_watermarks()
        self._partitions.clear()
