"""One partition of which this broker has a replica: its log, its role, its high watermark."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple, Protocol

from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.replication.follower import Follower
from ottla.replication.leader import Leader
from ottla.storage.batch_scan import Cold
from ottla.storage.log import Log
from ottla.storage.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)

NO_EPOCH = -1

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


class Watcher(Protocol):
    """Told when there is more to read. Must not change the partition's watchers meanwhile."""

    def records_added(self, partition: Partition, byte_count: int) -> None: ...

    def partition_closed(self, partition: Partition) -> None: ...


class ReplicaWatcher(Watcher, Protocol):
    """A follower's. Told when the log's end has moved: that is what it reads to."""

    def offsets_moved(self, partition: Partition) -> None:
        """The high watermark, or the log's start."""
        ...

    def answer(self, partition: Partition) -> None:
        """Soon, though there is nothing new: the follower is to fetch again."""
        ...


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class Partition:
    """Owned by the replica manager, from the first that this broker hears of its replica until the
    topic goes or the broker stops. What it knows beyond its log is in the coordination store and
    in the checkpoint of high watermarks."""

    def __init__(self, topic_id: TopicId, log: Log, high_watermark: int) -> None:
        """With the high watermark of the last run. It may be older than what was committed; never
        is it newer."""
        self.topic_partition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.high_watermark = high_watermark
        self.watchers: dict[Watcher, None] = {}
        self.replica_watchers: dict[ReplicaWatcher, None] = {}
        self.lane = asyncio.Lock()
        """Held by a change of role and by a truncation: one after another, in the order asked for.
        Appends do not take it; who changes the role waits for those under way."""
        self.follower: Follower | None = None
        self._leader: Leader | None = None
        self._transactions = log.producer_state.transactions
        self._unreplicated = self._transactions.unreplicated
        self._bound_high_watermark()

    # The role

    @property
    def leader(self) -> Leader:
        """Raises NOT_LEADER_OR_FOLLOWER where another broker leads, or nobody."""
        if self._leader is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker does not lead {self.topic_partition}.",
            )
        return self._leader

    @property
    def is_led(self) -> bool:
        """By this broker."""
        return self._leader is not None

    @property
    def has_role(self) -> bool:
        return self._leader is not None or self.follower is not None

    def lead(self, leader: Leader) -> None:
        """After `end_role`, still in the lane."""
        self._leader = leader
        self.leader_epoch = leader.leader_epoch

    def follow(self, follower: Follower) -> None:
        """After `end_role`, still in the lane."""
        self.follower = follower
        self.leader_epoch = follower.leader_epoch

    def config_changed(self) -> None:
        if self._leader is not None:
            self._leader.config_changed()

    async def end_role(self) -> None:
        """Nothing is read or appended from now on. Waits for the append that is under way, refuses
        those behind it; readers look for the partition anew."""
        leader, self._leader, self.follower = self._leader, None, None
        for watcher in (*self.watchers, *self.replica_watchers):
            try:
                watcher.partition_closed(self)
            except Exception:
                logger.exception("a reader of %s failed", self.topic_partition)
        self.watchers.clear()
        self.replica_watchers.clear()
        if leader is not None:
            await leader.close()

    def advance_high_watermark(self, high_watermark: int, byte_count: int) -> None:
        """Readers can see that many bytes more."""
        self.high_watermark = high_watermark
        if self._unreplicated:
            self._transactions.replicated_to(high_watermark)
        if byte_count and self.watchers:
            self._tell_readers(byte_count)

    def _tell_readers(self, byte_count: int) -> None:
        for watcher in self.watchers:
            try:
                watcher.records_added(self, byte_count)
            except Exception:  # A bug of one is not to keep the news from the others.
                logger.exception("a reader of %s failed", self.topic_partition)

    def end_moved(self, byte_count: int) -> None:
        """Followers can fetch that many bytes more."""
        for watcher in self.replica_watchers:
            try:
                watcher.records_added(self, byte_count)
            except Exception:
                logger.exception("a follower of %s failed", self.topic_partition)

    def offsets_moved(self) -> None:
        """Followers can hear of another high watermark, or start of the log."""
        for watcher in self.replica_watchers:
            try:
                watcher.offsets_moved(self)
            except Exception:
                logger.exception("a follower of %s failed", self.topic_partition)

    def answer_followers(self) -> None:
        """Those that wait for something new."""
        for watcher in self.replica_watchers:
            try:
                watcher.answer(self)
            except Exception:
                logger.exception("a follower of %s failed", self.topic_partition)

    def log_truncated(self) -> None:
        """What is gone was never committed, or was lost by an unclean election; or the log begins
        beyond what it had. Who reads behind its end, or before its start, hears so when it asks
        next."""
        self._bound_high_watermark()
        self._tell_readers(0)

    def _bound_high_watermark(self) -> None:
        """By a log that has just been loaded, or cut. It knows nothing of the high watermark, by
        which some of the transactions are decided that it has found."""
        log = self.log
        self.high_watermark = max(
            log.log_start_offset, min(self.high_watermark, log.log_end_offset)
        )
        self._transactions.replicated_to(self.high_watermark)

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """Where `read_committed` ends: before the first transaction that is not decided yet."""
        first_unstable_offset = self.log.first_unstable_offset
        if first_unstable_offset is None or first_unstable_offset > self.high_watermark:
            return self.high_watermark
        return first_unstable_offset

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """A client whose metadata is older or newer than ours must not go on with it (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.topic_partition} is in leader epoch {self.leader_epoch}, "
                f"the request in {current_leader_epoch}",
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.topic_partition} has not reached leader epoch {current_leader_epoch}",
        )

    def read(
        self, offset: int, max_bytes: int, *, is_committed_only: bool, at_least_one: bool
    ) -> FileSlice | Cold | None:
        """Records from the offset on, as they lie in the file, up to where readers may see."""
        end = self.read_end(is_committed_only)
        return self.log.read(offset, max_bytes, max_offset=end, at_least_one=at_least_one)

    def aborted_transactions(
        self, offset: int, records: FileSlice
    ) -> list[AbortedTransaction] | Cold:
        """Those that a reader of committed records leaves out of what it read from the offset."""
        return self.log.aborted_transactions(offset, records, self.last_stable_offset)

    def is_behind(self, offset: int) -> bool:
        """Whether a read from there ends before the log does: one read is of one segment."""
        return offset < self.log.active.base_offset

    def read_end(self, is_committed_only: bool) -> int:
        """The first offset that a reader may not see yet."""
        return self.last_stable_offset if is_committed_only else self.high_watermark

    async def offset_for_timestamp(
        self, timestamp: int, *, is_committed_only: bool
    ) -> OffsetAndTimestamp | None:
        """The first offset at or after a time, or one of the special places. Raises KafkaError
        where a new leader does not know yet how far records are committed."""
        end = self.read_end(is_committed_only)
        log = self.log
        if timestamp == LATEST_TIMESTAMP:
            self._check_end_is_known()
            return OffsetAndTimestamp(end, -1, self.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = log.log_start_offset
            return OffsetAndTimestamp(start, -1, self._epoch_at(start))
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return None  # There is no remote storage.
        if timestamp == MAX_TIMESTAMP:
            found = await log.offset_of_max_timestamp()
        else:
            found = await log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= end:
            self._check_end_is_known()
            return None
        return OffsetAndTimestamp(found.offset, found.timestamp, self._epoch_at(found.offset))

    def _check_end_is_known(self) -> None:
        """A leader begins with a high watermark that may be older than that of its predecessor. To
        tell it would let a reader go back (KIP-207)."""
        if self.high_watermark < self.leader.in_sync.epoch_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"the leader of {self.topic_partition} is new and does not know yet how far its "
                "records are committed; ask again",
            )

    def _epoch_at(self, offset: int) -> int:
        epoch = self.log.leader_epochs.epoch_for_offset(offset)
        return NO_EPOCH if epoch is None else epoch

    def delete_records(self, before_offset: int) -> int:
        """Moves the log's start; -1 stands for the high watermark. Returns the new start."""
        if "delete" not in self.log.config.cleanup_policy and self.log.config.cleanup_policy:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{self.topic_partition} is compacted only; records are deleted by offset only "
                "where cleanup.policy has delete",
            )
        if before_offset == -1:
            before_offset = self.high_watermark
        if not 0 <= before_offset <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} has committed offsets up to {self.high_watermark}, "
                f"records before {before_offset} cannot be deleted",
            )
        self.log.advance_log_start_offset(before_offset)
        self.offsets_moved()
        return self.log.log_start_offset
