"""One partition as this broker leads it: its log, its in-sync replicas, its high watermark."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from ottla.kernel.clock import Clock
from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.kernel.workers import Workers
from ottla.records.batch import (
    HEADER_BYTES,
    HEADER_STRUCT,
    BatchHeader,
    TimestampType,
    parse_header,
    patch_max_timestamp,
)
from ottla.records.builder import ControlType, build_end_txn_marker
from ottla.records.validation import (
    INT64_MAX,
    ProducePolicy,
    TakesLong,
    too_large,
    validate_produced,
)
from ottla.replication.append_memory import AppendMemory
from ottla.replication.uncommitted import Step, Uncommitted
from ottla.storage.batch_scan import Cold
from ottla.storage.errors import StorageFailure
from ottla.storage.log import Log
from ottla.storage.pending_write import Appended, PendingWrite
from ottla.storage.transaction_index import AbortedTransaction
from ottla.storage.verification import VerificationGuard

logger = logging.getLogger(__name__)

ACKS_ALL = -1
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


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class Marker(NamedTuple):
    """The end of a transaction, as its coordinator tells it to the leader of a partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class _QueuedAppend(NamedTuple):
    records: memoryview
    produce_version: int | None
    """None for what this broker has made itself: that is not validated."""
    takes_long: bool
    """To validate it at once was tried, and given up."""
    guard: VerificationGuard | None
    marker: Marker | None
    on_placed: Callable[[], None] | None
    done: asyncio.Future[Appended]


class Partition:
    """Owned by the replica manager, from becoming leader until the topic goes or the broker
    stops. What it knows beyond its log is in the coordination store and in the checkpoint of
    high watermarks.

    An append is validated, gets its *place* in the log (offsets, and a part in the state of its
    producer), and is *committed* when it is written, synced where `flush.messages` asks for it, and
    the high watermark has passed it. Nearly always all of that is one call."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log,
        *,
        leader_epoch: int,
        replicas: tuple[BrokerId, ...],
        isr: tuple[BrokerId, ...],
        clock: Clock,
        workers: Workers,
        memory: AppendMemory,
        checks_records: bool,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.isr = isr
        self.high_watermark = log.log_end_offset
        self._transactions = log.producer_state.transactions
        self._transactions.replicated_to(self.high_watermark)
        self._unreplicated = self._transactions.unreplicated
        self.watchers: dict[Watcher, None] = {}
        self._clock = clock
        self._workers = workers
        self._memory = memory
        self.checks_records = checks_records
        self.config_changed()
        # Both are empty in the common case: clients' appends that have no place yet, in their
        # order; and what has a place, and is being written or synced.
        self._queue: deque[_QueuedAppend] = deque()
        self._drain: asyncio.Task[None] | None = None
        self._uncommitted = Uncommitted(self._records_added)
        self._steps = self._uncommitted.steps
        log.assign_leader_epoch(leader_epoch, log.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Where `read_committed` ends: before the first transaction that is not decided yet."""
        first_unstable_offset = self.log.first_unstable_offset
        if first_unstable_offset is None or first_unstable_offset > self.high_watermark:
            return self.high_watermark
        return first_unstable_offset

    def config_changed(self) -> None:
        self._policy = policy = ProducePolicy.of(
            self.log.config, checks_lengths=self.checks_records
        )
        # A topic with fewer replicas than that is never more in sync than with all of them.
        self.min_insync_replicas = min(self.log.config.min_insync_replicas, len(self.replicas))
        # Work of milliseconds for a large batch, where records are looked into or compressed.
        self._validates_off_loop = not policy.is_plain and (
            policy.target_compression is not None
            or policy.is_compacted
            or policy.timestamp_before_max_ms < INT64_MAX
        )
        # An fsync of one batch is waited for by those behind it, as in Kafka.
        self._flushes = self.log.config.flush_messages < INT64_MAX
        self._appends_in_turn = self._validates_off_loop or self._flushes

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        produce_version: int,
        guard: VerificationGuard | None = None,
    ) -> Appended | asyncio.Future[Appended]:
        """Appends what a client produced. The buffer is written to (offset, epoch) and may be
        reused once this returned. The first batch of a transaction needs a guard that its
        coordinator has vouched for (`begin_verification`)."""
        takes_long = False
        try:
            appended = self.append_at_once(records, acks, produce_version, guard)
        except TakesLong:
            appended, takes_long = None, True
        if appended is None:
            return self._append_in_turn(records, produce_version, guard, takes_long=takes_long)
        return appended

    def append_at_once(
        self,
        records: memoryview,
        acks: int,
        produce_version: int,
        guard: VerificationGuard | None = None,
    ) -> Appended | None:
        """As `append`; None where that would wait, TakesLong where to check the batch would hold up
        the loop. Whoever got that, None or a KafkaError may try again with the same buffer, and
        hears the same."""
        if acks == ACKS_ALL and len(self.isr) < self.min_insync_replicas:
            raise self._not_enough_replicas()
        if self._queue or self._steps or self._appends_in_turn or self.log.folder.is_slow:
            return None
        now_ms = self._clock.now_ms()
        policy = self._policy
        header_as_sent = None if policy.is_plain else bytes(records[:HEADER_BYTES])
        batch, header = validate_produced(
            records,
            policy,
            now_ms=now_ms,
            produce_version=produce_version,
            is_at_once=True,
        )
        try:
            appended = self.log.append_as_leader(header, batch, self.leader_epoch, now_ms, guard)
        except KafkaError:
            # A second validation would refuse an offset other than 0, and what the first has marked
            # with LogAppendTime. Of a plain batch `header` is still the one without offset.
            records[:HEADER_BYTES] = header_as_sent or HEADER_STRUCT.pack(*header)
            raise
        if not appended.is_duplicate:
            self._records_added(self.log.log_end_offset, len(batch))
        return appended

    def append_own(self, batch: bytearray, guard: VerificationGuard | None = None) -> Appended:
        """Gives what a coordinator of this broker has built its place, at once; `when_committed`
        tells the rest. Offsets of a transaction need a guard as in `append`; of their producer
        only the epoch is checked."""
        if len(self.isr) < self.min_insync_replicas:
            raise self._not_enough_replicas()
        records = memoryview(batch)
        if len(records) > self.log.config.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(records)} bytes for {self.topic_partition}, max.message.bytes is "
                f"{self.log.config.max_message_bytes}",
            )
        return self._place(parse_header(records), records, self._clock.now_ms(), guard)

    # Transactions

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a transactional batch of this producer needs no verification (any more)."""
        return self.log.producer_state.has_open_transaction(producer_id, producer_epoch)

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        supports_epoch_bump: bool,
    ) -> VerificationGuard | None:
        """Before the coordinator is asked whether a transaction is there to be written to, for
        `append` afterwards. A marker that comes in between makes the guard void. None where the
        transaction is open here: then there is nothing to ask. `supports_epoch_bump` is for
        clients of transactions version 2, whose every transaction begins with sequence 0."""
        return self.log.producer_state.begin_verification(
            producer_id,
            producer_epoch,
            base_sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=self._clock.now_ms(),
            offset=self.log.log_end_offset,
        )

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        on_placed: Callable[[], None] | None = None,
    ) -> Appended | asyncio.Future[Appended]:
        """Ends the producer's transaction, as durable as acks=all. Raises KafkaError where another
        coordinator, or the producer itself, has moved on. `on_placed` is called when the marker
        has its place in the log, before anything else can get one after it."""
        if producer_id < 0 or producer_epoch < 0:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"there is no producer {producer_id} of epoch {producer_epoch}",
            )
        if len(self.isr) < self.min_insync_replicas:
            raise self._not_enough_replicas()
        now_ms = self._clock.now_ms()
        batch = build_end_txn_marker(
            ControlType.COMMIT if is_commit else ControlType.ABORT,
            offset=0,
            timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
        marker = Marker(
            producer_id, producer_epoch, is_commit, coordinator_epoch, transaction_version
        )
        records = memoryview(batch)
        if self._policy.is_log_append_time:
            patch_max_timestamp(records, TimestampType.LOG_APPEND_TIME, now_ms)
        if self._queue:
            return self._append_in_turn(records, None, marker=marker, on_placed=on_placed)
        self._check_marker(marker)
        appended = self._place(parse_header(records), records, now_ms, None)
        if on_placed is not None:
            on_placed()
        return self._committed(appended)

    def _check_marker(self, marker: Marker) -> None:
        self.log.producer_state.check_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_version,
            self.log.log_end_offset,
        )

    # From its place to being committed

    def _place(
        self,
        header: BatchHeader,
        batch: memoryview,
        now_ms: int,
        guard: VerificationGuard | None,
    ) -> Appended:
        """The batch must stay as it is until it is committed."""
        log = self.log
        # Nothing is written past what waits to be written.
        if log.folder.is_slow or log.next_offset != log.log_end_offset:
            pending = log.prepare(header, batch, self.leader_epoch, now_ms, guard)
            if isinstance(pending, PendingWrite):
                step = self._uncommitted.begin(pending.appended.last_offset + 1, len(batch))
                written = log.folder.submit_write(pending.write)
                written.add_done_callback(partial(self._written, step, pending))
                return pending.appended
            appended = pending
        else:
            appended = log.append_as_leader(header, batch, self.leader_epoch, now_ms, guard)
        byte_count = 0 if appended.is_duplicate else len(batch)
        # A duplicate too: a kill may have come between the write of the first and its fsync.
        if self._steps or (self._flushes and log.is_flush_due):
            self._sync(self._uncommitted.begin(log.next_offset, byte_count))
        elif byte_count:
            self._records_added(log.log_end_offset, byte_count)
        return appended

    def _written(self, step: Step, pending: PendingWrite, written: asyncio.Future[float]) -> None:
        if self._has_succeeded(written):
            self.log.commit(pending)
            self._sync(step)

    def _sync(self, step: Step) -> None:
        """If that is due."""
        if not (self._flushes and self.log.is_flush_due):
            self._uncommitted.finish(step)
            return
        try:
            flushed = self.log.flush()
        except StorageFailure as error:
            self._uncommitted.fail(error)
        else:
            flushed.add_done_callback(partial(self._synced, step))

    def _synced(self, step: Step, flushed: asyncio.Future[None]) -> None:
        if self._has_succeeded(flushed):
            self._uncommitted.finish(step)

    def _has_succeeded(self, done: asyncio.Future[Any]) -> bool:
        """A disk that failed has failed for all that follows."""
        error = None if done.cancelled() else done.exception()
        if not done.cancelled() and error is None:
            return True
        failure = error if isinstance(error, KafkaError) else self._gone()
        self._uncommitted.fail(failure)
        return False

    def _records_added(self, end_offset: int, byte_count: int) -> None:
        """With this broker alone in the ISR, what is in its log is committed."""
        self.high_watermark = end_offset
        if self._unreplicated:
            self._transactions.replicated_to(end_offset)
        if byte_count:
            for watcher in self.watchers:
                try:
                    watcher.records_added(self, byte_count)
                except Exception:  # A bug of one is not to keep the news from the others.
                    logger.exception("a reader of %s failed", self.topic_partition)

    @property
    def is_all_committed(self) -> bool:
        """Whether nothing that has a place waits to be committed, or was lost with the disk."""
        return self._uncommitted.is_empty

    def when_committed(self, on_committed: Callable[[KafkaError | None], None]) -> None:
        """Calls back when all that has a place now is committed, at once where it is; or with the
        error that keeps it from that."""
        self._uncommitted.when_committed(on_committed)

    def _committed(self, appended: Appended) -> Appended | asyncio.Future[Appended]:
        if self.is_all_committed:
            return appended
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

        def resolve(error: KafkaError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(appended)
            else:
                done.set_exception(error)

        self._uncommitted.when_committed(resolve)
        return done

    def _gone(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is gone")

    # Appends that wait for their place

    def _not_enough_replicas(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.topic_partition} has {len(self.isr)} in-sync replicas, "
            f"min.insync.replicas asks for {self.min_insync_replicas}",
        )

    def _append_in_turn(
        self,
        records: memoryview,
        produce_version: int | None,
        guard: VerificationGuard | None = None,
        *,
        takes_long: bool = False,
        marker: Marker | None = None,
        on_placed: Callable[[], None] | None = None,
    ) -> asyncio.Future[Appended]:
        """Compression, a slow disk and an fsync that `flush.messages` asks for are waited for off
        the loop, one batch after another: a producer's batches must keep their order."""
        if produce_version is not None and len(records) > self._policy.max_message_bytes:
            raise too_large(len(records), self._policy)  # Before it is copied.
        self._memory.take(len(records))
        done = asyncio.get_running_loop().create_future()
        copied = memoryview(bytearray(records))
        self._queue.append(
            _QueuedAppend(copied, produce_version, takes_long, guard, marker, on_placed, done)
        )
        if self._drain is None:
            self._drain = asyncio.create_task(self._drain_queue())
        return done

    async def _drain_queue(self) -> None:
        while self._queue:
            queued = self._queue[0]
            try:
                appended = await self._append_off_loop(queued)
            except Exception as error:  # Whoever waits for it hears of it.
                if not queued.done.done():
                    queued.done.set_exception(error)
            else:
                if not queued.done.done():
                    queued.done.set_result(appended)
            self._queue.popleft()
            self._memory.give_back(len(queued.records))
        self._drain = None

    async def _validated(
        self, validate: Callable[..., tuple[memoryview, BatchHeader]], takes_long: bool
    ) -> tuple[memoryview, BatchHeader]:
        if not (takes_long or self._validates_off_loop):
            try:
                return validate(is_at_once=True)
            except TakesLong:
                pass
        return await self._workers.submit(validate)

    async def _append_off_loop(self, queued: _QueuedAppend) -> Appended:
        now_ms = self._clock.now_ms()
        batch = queued.records
        if queued.produce_version is None:
            header = parse_header(batch)
        else:
            validate = partial(
                validate_produced,
                batch,
                self._policy,
                now_ms=now_ms,
                produce_version=queued.produce_version,
            )
            batch, header = await self._validated(validate, queued.takes_long)
        if queued.marker is not None:
            self._check_marker(queued.marker)
        appended = self._place(header, batch, now_ms, queued.guard)
        if queued.on_placed is not None:
            queued.on_placed()
        committed = self._committed(appended)
        return committed if isinstance(committed, Appended) else await committed

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
        return offset < self.log.active_base_offset

    def read_end(self, is_committed_only: bool) -> int:
        """The first offset that a reader may not see yet."""
        return self.last_stable_offset if is_committed_only else self.high_watermark

    async def offset_for_timestamp(
        self, timestamp: int, *, is_committed_only: bool
    ) -> OffsetAndTimestamp | None:
        """The first offset at or after a time, or one of the special places."""
        end = self.read_end(is_committed_only)
        log = self.log
        if timestamp == LATEST_TIMESTAMP:
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
            return None
        return OffsetAndTimestamp(found.offset, found.timestamp, self._epoch_at(found.offset))

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
        return self.log.log_start_offset

    async def close(self) -> None:
        """Waits for the append that is under way, refuses those behind it."""
        for watcher in list(self.watchers):
            try:
                watcher.partition_closed(self)
            except Exception:
                logger.exception("a reader of %s failed", self.topic_partition)
        self.watchers.clear()
        while len(self._queue) > 1:
            waiting = self._queue.pop()
            self._memory.give_back(len(waiting.records))
            if not waiting.done.done():
                waiting.done.set_exception(self._gone())
        if self._drain is not None:
            await asyncio.wait([self._drain])
        if self._steps:
            settled = asyncio.get_running_loop().create_future()
            self.when_committed(lambda _: settled.set_result(None))
            await settled
