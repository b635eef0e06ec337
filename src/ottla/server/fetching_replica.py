"""A Fetch of another broker, which follows partitions that this one leads.

It reads to the log's end, where consumers read to the high watermark, and what it asks for tells
what it has: that moves the high watermark, and may bring it into the ISR. A partition of its
session that a fetch does not name has nothing new, and counts as asked for once more
(`RemoteReplica`).
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.disk import FileSlice
from ottla.kernel.ids import BrokerId
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.replication.remote_replica import UNKNOWN_BROKER_EPOCH
from ottla.replication.replication_quota import ReplicationQuota
from ottla.server.fetch_sessions.fetched_partition import FetchedPartition
from ottla.server.fetch_sessions.session import FetchSession
from ottla.storage.batch_scan import Cold
from ottla.wire.messages.fetch import FetchRequest


class FetchingReplica(NamedTuple):
    broker_id: BrokerId
    broker_epoch: int

    @classmethod
    def of(cls, request: FetchRequest) -> FetchingReplica | None:
        """None for a consumer."""
        state = request.replica_state
        if state.replica_id >= 0:
            return cls(BrokerId(state.replica_id), state.replica_epoch)
        if request.replica_id >= 0:  # before v15
            return cls(BrokerId(request.replica_id), UNKNOWN_BROKER_EPOCH)
        return None

    def read(
        self,
        partition: Partition,
        fetched: FetchedPartition,
        session: FetchSession,
        max_bytes: int,
        *,
        at_least_one: bool,
        quota: ReplicationQuota,
    ) -> FileSlice | Cold | None:
        """Raises KafkaError where the broker is no replica of the partition, or not the one that is
        registered, or where this broker leads no more."""
        leader = partition.leader
        replica = leader.in_sync.follower(
            self.broker_id,
            self.broker_epoch,
            knows_leader_epoch=fetched.current_leader_epoch >= 0,
        )
        if self._is_held_back(leader, quota):
            max_bytes, at_least_one = 0, False
        records = leader.log.read(
            fetched.fetch_offset,
            max_bytes,
            max_offset=leader.end_offset,
            at_least_one=at_least_one,
        )
        if fetched.is_position_new:  # Once a request, however often it is read again.
            fetched.is_position_new = False
            leader.follower_fetched(
                self.broker_id,
                fetched.fetch_offset,
                log_start_offset=fetched.log_start_offset,
                broker_epoch=self.broker_epoch,
            )
            if session.id:
                fetched.count_for(replica, session)
        return records

    def _is_held_back(self, leader: Leader, quota: ReplicationQuota) -> bool:
        """Only while it is not in sync: a throttle throws nobody out of the ISR."""
        return (
            has_throttle(leader, quota)
            and self.broker_id not in leader.in_sync.committed
            and quota.is_exceeded
        )


def has_throttle(leader: Leader, quota: ReplicationQuota) -> bool:
    """Whether what is served of the partition counts."""
    return quota.is_limited and quota.throttles(
        leader.topic_partition, leader.log.config.leader_replication_throttled_replicas
    )
