"""This broker as the leader of a partition: what is appended, and when it is committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.garbage import weakly
from ottla.kernel.ids import BrokerId
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
from ottla.replication.append_queue import AppendQueue, QueuedAppend
from ottla.replication.delayed_delete_records import DelayedDeleteRecords
from ottla.replication.delayed_produce import DelayedProduces, settle
from ottla.replication.in_sync_replicas import InSyncReplicas, Proposal
from ottla.replication.uncommitted import Parked, Settled, Step, Uncommitted
from ottla.storage.errors import StorageFailure
from ottla.storage.pending_write import Appended, PendingWrite
from ottla.storage.verification import VerificationGuard

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

logger = logging.getLogger(__name__)

ACKS_ALL = -1


class Marker(NamedTuple):
    """The end of a transaction, as its coordinator tells it to the leader of a partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


AlterIsr = Callable[["Leader", Proposal], None]


class Leader:
    """Owned by its partition, for one leader epoch: whoever appends with it writes in that epoch
    or not at all. In a crash all that is not written is lost with it, and was not acknowledged.

    An append is validated, gets its *place* in the log (offsets, and a part in the state of its
    producer), is *written* here (synced where `flush.messages` asks for it), and is *committed*
    when the high watermark has passed it. With one replica that is nearly always one call."""

    def __init__(
        self,
        partition: Partition,
        leader_epoch: int,
        in_sync: InSyncReplicas,
        *,
        clock: Clock,
        workers: Workers,
        memory: AppendMemory,
        checks_records: bool,
        alter_isr: AlterIsr | None = None,
    ) -> None:
        """`alter_isr` asks the controller for another ISR; without it nobody joins or leaves."""
        self.topic_partition = partition.topic_partition
        self.log = log = partition.log
        self.leader_epoch = leader_epoch
        self.in_sync = in_sync
        self.checks_records = checks_records
        self.partition = partition
        self._clock = clock
        self._workers = workers
        # All are empty in the common case: clients' appends that have no place yet, in their
        # order; and what has a place, and is not committed.
        self._appends = AppendQueue(memory, weakly(self._append_off_loop))
        self._queue = self._appends.waiting
        self._uncommitted = Uncommitted(weakly(self._end_moved))
        self._writing = self._uncommitted.writing
        self._delayed = DelayedProduces(self.topic_partition, self._uncommitted, clock)
        self.delayed_deletes = DelayedDeleteRecords(
            lambda: in_sync.low_watermark(log.log_start_offset)
        )
        self._alter_isr = alter_isr
        self._grows_at_once = True
        self.is_closed = False
        self._take_config()
        log.begin_leader_epoch(leader_epoch)
        self.end_offset = log.log_end_offset
        """Up to which the log is as durable here as it is to be: followers read to it."""
        self._uncommitted.waiting.append(Step(log.log_end_offset, 0))  # Of leaders before this.
        self._advance_high_watermark()

    def config_changed(self) -> None:
        self._take_config()
        self._isr_changed()  # It may be too small by now, or large enough.

    def _take_config(self) -> None:
        self._policy = policy = ProducePolicy.of(
            self.log.config, checks_lengths=self.checks_records
        )
        # A topic with fewer replicas than that is never more in sync than with all of them.
        self.min_insync_replicas = min(
            self.log.config.min_insync_replicas, len(self.in_sync.followers) + 1
        )
        # Work of milliseconds for a large batch, where records are looked into or compressed.
        self._validates_off_loop = not policy.is_plain and (
            policy.target_compression is not None
            or policy.is_compacted
            or policy.timestamp_before_max_ms < INT64_MAX
        )
        # An fsync of one batch is waited for by those behind it, as in Kafka.
        self._flushes = self.log.config.flush_messages < INT64_MAX
        self._appends_in_turn = self._validates_off_loop or self._flushes

    def _check_leads(self) -> None:
        if self.is_closed:
            raise self._gone()

    # Appends

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        produce_version: int,
        guard: VerificationGuard | None = None,
        timeout_ms: int | None = None,
    ) -> Appended | asyncio.Future[Appended]:
        """Appends what a client produced. The buffer is written to (offset, epoch) and may be
        reused once this returned. The first batch of a transaction needs a guard that its
        coordinator has vouched for (`begin_verification`). With acks=all followers have so much
        time to get it; None is for ever."""
        takes_long = False
        try:
            appended = self._append_now(records, acks, produce_version, guard)
        except TakesLong:
            appended, takes_long = None, True
        if appended is None:
            return self._append_in_turn(
                records, acks, produce_version, guard, takes_long=takes_long, timeout_ms=timeout_ms
            )
        return self._settled(appended, acks, timeout_ms)

    def append_at_once(
        self, records: memoryview, acks: int, produce_version: int
    ) -> Appended | None:
        """As `append`; None where that would wait, TakesLong where to check the batch would hold up
        the loop. Whoever got that, None or a KafkaError may try again with the same buffer, and
        hears the same."""
        if acks == ACKS_ALL and self.in_sync.followers:
            return None
        return self._append_now(records, acks, produce_version, None)

    def _append_now(
        self,
        records: memoryview,
        acks: int,
        produce_version: int,
        guard: VerificationGuard | None,
    ) -> Appended | None:
        if acks == ACKS_ALL and len(self.in_sync.committed) < self.min_insync_replicas:
            raise self._not_enough_replicas()
        if self._queue or self._writing or self._appends_in_turn or self.log.folder.is_slow:
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
            self._appended(len(batch))
        return appended

    def append_own(self, batch: bytearray, guard: VerificationGuard | None = None) -> Appended:
        """Gives what a coordinator of this broker has built its place, at once; `when_committed`
        tells the rest. Offsets of a transaction need a guard as in `append`; of their producer
        only the epoch is checked."""
        self._check_leads()
        self._check_enough_in_sync()
        records = memoryview(batch)
        self.check_size(len(records))
        return self._place(parse_header(records), records, self._clock.now_ms(), guard)

    def check_size(self, size_bytes: int) -> None:
        """Raises MESSAGE_TOO_LARGE where `append_own` would: for whoever sees it coming."""
        if size_bytes > self.log.config.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{size_bytes} bytes for {self.topic_partition}, max.message.bytes is "
                f"{self.log.config.max_message_bytes}",
            )

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
        self._check_leads()
        self._check_enough_in_sync()
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
            return self._append_in_turn(records, ACKS_ALL, None, marker=marker, on_placed=on_placed)
        self._check_marker(marker)
        appended = self._place(parse_header(records), records, now_ms, None)
        if on_placed is not None:
            on_placed()
        return self._settled(appended, ACKS_ALL, None)

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
        if self._writing or (self._flushes and log.is_flush_due):
            self._sync(self._uncommitted.begin(log.next_offset, byte_count))
        elif byte_count:
            self._appended(byte_count)
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

    # The high watermark

    def _appended(self, byte_count: int) -> None:
        """Written at once, at the log's end."""
        end_offset = self.log.log_end_offset
        if self.in_sync.followers:
            self._uncommitted.finish(self._uncommitted.begin(end_offset, byte_count))
        else:
            self.end_offset = end_offset
            self.partition.advance_high_watermark(end_offset, byte_count)

    def follower_fetched(
        self, broker_id: BrokerId, fetch_offset: int, *, log_start_offset: int, broker_epoch: int
    ) -> None:
        """A replica of the partition has all records before that offset."""
        self.in_sync.followers[broker_id].fetched(
            fetch_offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=self.end_offset,
            now_s=self._clock.monotonic_s(),
        )
        if self._grows_at_once and self.in_sync.may_join(broker_id, self.partition.high_watermark):
            self._propose(self.in_sync.committed | {broker_id})
        self._advance_high_watermark()
        self.delayed_deletes.check()

    def _end_moved(self, end_offset: int, byte_count: int) -> None:
        self.in_sync.leader_gets_more(self.end_offset)
        self.end_offset = end_offset
        self._advance_high_watermark()
        self.partition.end_moved(byte_count)

    def _advance_high_watermark(self) -> None:
        before = self.partition.high_watermark
        high_watermark = self.in_sync.high_watermark(
            before,
            log_end_offset=self.end_offset,
            min_insync_replicas=self.min_insync_replicas,
            now_s=self._clock.monotonic_s(),
        )
        byte_count = self._uncommitted.commit(high_watermark)
        if high_watermark > before:
            # What a leader before this one has written is of a size unknown here.
            self.partition.advance_high_watermark(
                high_watermark, byte_count or high_watermark - before
            )
            self.partition.offsets_moved()
        # Also where it stands still: a repeat of what is committed waits only for its fsync.
        self._uncommitted.settle(high_watermark)

    # Who is in sync

    def isr_answered(self, proposal: Proposal, isr: Iterable[BrokerId], epoch: int) -> None:
        """By the controller, to AlterPartition: the set and its partition epoch."""
        self.in_sync.answered(proposal, isr, epoch)
        self._isr_changed()

    def isr_refused(self, proposal: Proposal) -> None:
        """Who was to join tries again when the ISR is judged next: not with every fetch."""
        self._grows_at_once = False
        self.in_sync.refused(proposal)
        self._isr_changed()

    def isr_told(self, isr: Iterable[BrokerId], partition_epoch: int) -> None:
        """By LeaderAndIsr, in the same leader epoch."""
        self.in_sync.told(isr, partition_epoch)
        self._isr_changed()

    def judge_isr(self, *, since_s: float) -> None:
        """Every second. Lag counts from `since_s` at the earliest."""
        in_sync, now_s = self.in_sync, self._clock.monotonic_s()
        self._grows_at_once = True
        self.delayed_deletes.check()  # A broker that is gone is not waited for.
        lagging = in_sync.lagging(self.end_offset, now_s, since_s=since_s)
        joining = in_sync.joining(self.partition.high_watermark, now_s)
        if lagging or joining:
            self._propose(in_sync.committed - lagging | joining)

    def _propose(self, isr: frozenset[BrokerId]) -> None:
        if self._alter_isr is not None:
            logger.info(
                "%s: asking for the in-sync replicas %s instead of %s",
                self.topic_partition,
                sorted(isr),
                sorted(self.in_sync.committed),
            )
            self._alter_isr(self, self.in_sync.propose(isr))

    def _isr_changed(self) -> None:
        if self.is_closed:
            return  # The controller's answer was late. Another leads, and may have cut the log.
        if len(self.in_sync.committed) < self.min_insync_replicas:
            self._delayed.too_few_in_sync(self._what_is_in_sync)
        self._advance_high_watermark()

    @property
    def is_all_committed(self) -> bool:
        """Whether nothing that has a place waits to be committed, or was lost with the disk."""
        return self._uncommitted.is_empty

    def when_committed(self, on_settled: Settled) -> Parked | None:
        """Calls back when all that has a place now is committed, at once where it is; or with the
        error that keeps it from that. Returns what `give_up` takes."""
        return self._uncommitted.when_committed(on_settled)

    def give_up(self, parked: Parked | None) -> None:
        """Nobody is called back any more."""
        self._uncommitted.give_up(parked)

    def _settled(
        self, appended: Appended, acks: int, timeout_ms: int | None
    ) -> Appended | asyncio.Future[Appended]:
        """When it is committed, or, where the producer asks for no more, written."""
        if not (self._writing or (acks == ACKS_ALL and self._uncommitted.waiting)):
            return appended
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._settle_later(done, appended, acks, timeout_ms)
        return done

    def _settle_later(
        self,
        done: asyncio.Future[Appended],
        appended: Appended,
        acks: int,
        timeout_ms: int | None,
    ) -> None:
        if acks == ACKS_ALL:
            self._delayed.add(done, appended, timeout_ms)
        else:
            self._uncommitted.when_written(partial(settle, done, appended))

    def _gone(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is gone")

    # Appends that wait for their place

    def _check_enough_in_sync(self) -> None:
        """For what is to be as durable as acks=all."""
        if len(self.in_sync.committed) < self.min_insync_replicas:
            raise self._not_enough_replicas()

    def _not_enough_replicas(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, self._what_is_in_sync)

    @property
    def _what_is_in_sync(self) -> str:
        return (
            f"{self.topic_partition} has {len(self.in_sync.committed)} in-sync replicas, "
            f"min.insync.replicas asks for {self.min_insync_replicas}"
        )

    def _append_in_turn(
        self,
        records: memoryview,
        acks: int,
        produce_version: int | None,
        guard: VerificationGuard | None = None,
        *,
        takes_long: bool = False,
        timeout_ms: int | None = None,
        marker: Marker | None = None,
        on_placed: Callable[[], None] | None = None,
    ) -> asyncio.Future[Appended]:
        """Compression, a slow disk and an fsync that `flush.messages` asks for are waited for off
        the loop, one batch after another: a producer's batches must keep their order."""
        self._check_leads()
        if produce_version is not None and len(records) > self._policy.max_message_bytes:
            raise too_large(len(records), self._policy)  # Before it is copied.
        return self._appends.add(
            QueuedAppend(
                records,
                acks,
                produce_version,
                timeout_ms,
                takes_long,
                guard,
                marker,
                on_placed,
                asyncio.get_running_loop().create_future(),
            )
        )

    async def _validated(
        self, validate: Callable[..., tuple[memoryview, BatchHeader]], takes_long: bool
    ) -> tuple[memoryview, BatchHeader]:
        if not (takes_long or self._validates_off_loop):
            try:
                return validate(is_at_once=True)
            except TakesLong:
                pass
        return await self._workers.submit(validate)

    async def _append_off_loop(self, queued: QueuedAppend) -> None:
        """Returns when it is written. Who asked for it may wait longer, for the followers; those
        behind it must not, or each would cost a round trip to them."""
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
        self._check_leads()
        if queued.acks == ACKS_ALL:
            self._check_enough_in_sync()  # Again: replicas may have fallen out meanwhile.
        if queued.marker is not None:
            self._check_marker(queued.marker)
        appended = self._place(header, batch, now_ms, queued.guard)
        if queued.on_placed is not None:
            queued.on_placed()
        self._settle_later(queued.done, appended, queued.acks, queued.timeout_ms)
        await self._uncommitted.all_written()

    async def close(self) -> None:
        """Waits until what has its place is written, refuses all else. What followers do not have
        by then is theirs to keep or to lose: nobody waits for them here any more."""
        self.is_closed = self._appends_in_turn = True
        self._appends.refuse_waiting(self._gone)
        self.delayed_deletes.fail(self._gone())
        await self._uncommitted.all_written()
        if self._uncommitted.waiting:
            self._uncommitted.fail(self._gone())
        await self._appends.drained()
