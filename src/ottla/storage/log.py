"""One partition's log: segments in a row, of which the last is appended to."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import NoReturn, ParamSpec, TypeVar

from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.records.batch import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    patch_place,
)
from ottla.records.control import parse_end_txn_marker
from ottla.storage.batch_scan import Cold
from ottla.storage.errors import StorageFailure
from ottla.storage.flusher import Flusher
from ottla.storage.folder import LogFolder
from ottla.storage.leader_epoch_checkpoint import LeaderEpochCheckpoint
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.pending_write import Appended, PendingWrite, cut_back, repeated
from ottla.storage.producer_snapshot import encode_snapshot
from ottla.storage.producer_state import EndedTransaction, ProducerState
from ottla.storage.recovery import load_producers
from ottla.storage.replicated_batches import read_run
from ottla.storage.roll_limits import RollLimits
from ottla.storage.segment import RELATIVE_OFFSET_MAX, ActiveSegment, Segment
from ottla.storage.segments import Segments
from ottla.storage.snapshots import Snapshots
from ottla.storage.timestamp_search import (
    ActiveView,
    ClosedView,
    TimestampOffset,
    find_max_timestamp,
    find_timestamp,
    search,
    view_active,
)
from ottla.storage.transaction_index import AbortedTransaction
from ottla.storage.verification import VerificationGuard

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# Of a NamedTuple its own constructor takes twice as long; every append makes one.
_new_tuple = tuple.__new__


class Log:
    """Owned by the log manager from creation or start until deletion or stop; its partition
    appends and reads. All of it on the loop, except what says that it may be called elsewhere.

    `log_start_offset <= offset < log_end_offset` is what it holds. What lies below
    `recovery_point` is on the disk; after a crash only what lies above is looked at, and a prefix
    of it is kept. Whatever an append or another change raises takes the whole log dir offline,
    and so does an `OSError` of a read; it is raised as `StorageFailure`."""

    def __init__(
        self,
        *,
        folder: LogFolder,
        path: str,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        config: TopicConfig,
        segments: list[Segment],
        active: ActiveSegment,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        leader_epochs: LeaderEpochs,
        are_epochs_written: bool,
        producer_state: ProducerState,
        snapshots: Snapshots,
        rng: random.Random,
    ) -> None:
        self.folder = folder
        self.path = path
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.leader_epochs = leader_epochs
        self._epoch_checkpoint = LeaderEpochCheckpoint(
            folder.disk, path, leader_epochs, self._submit, is_written=are_epochs_written
        )
        self.producer_state = producer_state
        self.snapshots = snapshots
        self.is_deleted = False
        self._clock = folder.clock
        self._segments = Segments(folder, path, segments, active, rng)
        self.next_offset = log_end_offset
        """That the next batch gets: beyond the end while appends are prepared and not committed."""
        self._flusher = Flusher(folder, path, recovery_point, self._submit)
        self._roll_limits = RollLimits(active, config)
        self._renaming_count = 0
        self.set_config(config)

    # Configuration

    @property
    def config(self) -> TopicConfig:
        return self._config

    def set_config(self, config: TopicConfig) -> None:
        self._config = config
        self._index_interval_bytes = config.index_interval_bytes
        self._set_roll_limits()

    def _set_roll_limits(self) -> None:
        self._roll_limits.set(self._segments.active, self._config)

    # Appending

    def append_as_leader(
        self,
        header: BatchHeader,
        buffer: memoryview,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> Appended:
        """Appends one batch that has been validated, and `header` is its header as it now is.
        Gives it its offsets, in place. Raises `KafkaError` for a producer out of order, and
        `StorageFailure`; then nothing was appended. Whoever acknowledges it sees to `is_flush_due`
        first. A marker has passed `producer_state.check_marker` just before."""
        appended = self._admit(header, buffer, leader_epoch, now_ms, guard)
        if appended.is_duplicate:
            return appended
        active = self._segments.active
        position = active.size_bytes
        monotonic_s = self._clock.monotonic_s
        started_s = monotonic_s()
        try:
            active.file.write_at(position, (buffer,))
            self.folder.wrote(monotonic_s() - started_s)
            self._take_in(header, buffer, appended)
        except Exception as error:
            if not isinstance(error, StorageFailure):  # That is of its index.
                cut_back(active.file, position)
            self._fail(error, "appending to")
        self.log_end_offset = appended.last_offset + 1
        return appended

    def prepare(
        self,
        header: BatchHeader,
        buffer: memoryview,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> PendingWrite | Appended:
        """`append_as_leader` up to the write, for a folder that is slow: submit the write with
        `folder.submit_write(pending.write)`, then `commit`. The buffer must stay as it is. Several
        may be pending. A duplicate, which may be of one that is still pending, is answered when
        all that is pending now has been written."""
        appended = self._admit(header, buffer, leader_epoch, now_ms, guard)
        if appended.is_duplicate:
            return appended
        pending = PendingWrite(self._clock, self._segments.active, buffer, appended)
        self._segments.unwritten.append(pending)
        self._guard("appending to", lambda: self._take_in(header, buffer, appended))
        return pending

    def commit(self, pending: PendingWrite) -> Appended:
        """After its `write` returned."""
        appended = pending.appended
        assert appended.first_offset == self.log_end_offset, "writes are committed in order"
        self._segments.unwritten.popleft()
        self.log_end_offset = appended.last_offset + 1
        return appended

    def _admit(
        self,
        header: BatchHeader,
        buffer: memoryview,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None,
    ) -> Appended:
        """Gives a batch of a leader its place at the end of the active segment, or finds it to be
        one that is there already. Until `_take_in` the log does not know of it."""
        if self.folder.failure is not None:
            self.folder.check_online()
        base_offset = self.next_offset
        if header.producer_id >= 0 and not header.attributes & CONTROL_FLAG:
            duplicate = self.producer_state.check(header, base_offset, guard)
            if duplicate is not None:
                return repeated(duplicate)
        last_offset = base_offset + header.last_offset_delta
        self._make_room(header, base_offset, last_offset, leader_epoch, now_ms)
        patch_place(buffer, 0, base_offset, header.batch_length, leader_epoch)
        time_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME_FLAG else -1
        return _new_tuple(Appended, (base_offset, last_offset, time_ms, False))

    def _take_in(self, header: BatchHeader, buffer: memoryview, appended: Appended) -> None:
        base_offset, last_offset, _, _ = appended
        self._note(header, base_offset, last_offset, header.batch_length + LOG_OVERHEAD_BYTES)
        if header.producer_id >= 0:
            if header.attributes & CONTROL_FLAG:
                self._note_marker(header, buffer, base_offset)
            else:
                self.producer_state.update(header, base_offset)

    def append_as_follower(self, buffer: memoryview) -> int:
        """Appends batches as the leader has them, offsets and all: as many as fit into one segment,
        and do not take long. Returns their bytes; 0 where no whole batch is left."""
        self.folder.check_online()
        active = self._segments.active
        now_ms = self._clock.now_ms()
        run = read_run(buffer, self.next_offset, active.size_bytes, self._roll_limits, now_ms)
        size_bytes, headers, must_roll = run
        if not headers:
            return 0
        (base_offset, *_), last_offset = headers[0], headers[-1].last_offset
        if active.size_bytes and must_roll:
            active = self.roll()
        if last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
            replace = self._segments.replace_empty
            self._remove_later(self._guard("rolling", lambda: replace(base_offset, self._config)))
            active = self._segments.active
        position = active.size_bytes
        try:
            active.file.write_at(position, (buffer[:size_bytes],))
            active.note_run(headers, self._index_interval_bytes)
            self.next_offset = last_offset + 1
            self._take_in_replicated(buffer, headers)
        except Exception as error:
            if not isinstance(error, StorageFailure):  # That is of its index.
                cut_back(active.file, position)
            self._fail(error, "appending to")
        self.log_end_offset = self.next_offset
        if self.is_flush_due:
            self.flush_soon()
        return size_bytes

    def _take_in_replicated(self, buffer: memoryview, headers: list[BatchHeader]) -> None:
        position, checkpoint = 0, self._epoch_checkpoint
        for header in headers:
            if header.partition_leader_epoch != checkpoint.written_epoch:
                checkpoint.note(header.partition_leader_epoch, header.base_offset)
            end = position + header.batch_length + LOG_OVERHEAD_BYTES
            if header.producer_id >= 0:
                self._note_ended(self.producer_state.replay(header, buffer[position:end]))
            position = end
        active = self._segments.active
        self._set_roll_limits()
        if active.is_index_due and not self.folder.is_slow:
            self._guard("writing the index of", active.write_indexes)

    def _make_room(
        self,
        header: BatchHeader,
        base_offset: int,
        last_offset: int,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """The right epoch in the cache, the right segment at the end."""
        active = self._segments.active
        size_bytes = header.batch_length + LOG_OVERHEAD_BYTES
        if self._roll_limits.are_passed(
            active.size_bytes + size_bytes, header.max_timestamp, last_offset, now_ms
        ):
            if size_bytes > self._config.segment_bytes:
                raise KafkaError(
                    ErrorCode.RECORD_LIST_TOO_LARGE,
                    f"A batch of {size_bytes} bytes is larger than segment.bytes, "
                    f"{self._config.segment_bytes}, of {self.topic_partition}",
                )
            if active.size_bytes:
                self.roll()
        if leader_epoch != self._epoch_checkpoint.written_epoch:
            self._epoch_checkpoint.note(leader_epoch, base_offset)

    def _note(
        self, header: BatchHeader, base_offset: int, last_offset: int, size_bytes: int
    ) -> None:
        """Takes in a batch that is written at the end of the active segment, or will be."""
        active = self._segments.active
        was_empty = active.size_bytes == 0
        is_indexed = active.note_append(
            base_offset, last_offset, header.max_timestamp, size_bytes, self._index_interval_bytes
        )
        self.next_offset = last_offset + 1
        if was_empty or is_indexed:
            self._set_roll_limits()
        if is_indexed and active.is_index_due and not self.folder.is_slow:
            self._guard("writing the index of", active.write_indexes)

    def _note_marker(self, header: BatchHeader, batch: memoryview, base_offset: int) -> None:
        marker = parse_end_txn_marker(batch)
        assert marker is not None, "a leader appends no empty control batch"
        self._note_ended(self.producer_state.end_transaction(header, marker, base_offset))

    def _note_ended(self, ended: EndedTransaction | None) -> None:
        """Only what was aborted is remembered: readers are told to leave it out."""
        if ended is None or ended.is_commit:
            return
        active = self._segments.active
        active.note_aborted(ended)
        if not self.folder.is_slow:
            self._guard("writing the index of", active.write_transaction_index)

    def roll(self) -> ActiveSegment:
        """Closes the active segment and begins a new one at the log's end. The old one is synced
        off the loop; then the recovery point advances."""
        return self._guard("rolling", self._roll)

    def _roll(self) -> ActiveSegment:
        base_offset = self.next_offset
        old = self._segments.roll(base_offset, self._config)
        self._set_roll_limits()
        self._take_snapshot(base_offset)
        self._flusher.flush_closed(old, base_offset)
        return self._segments.active

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int, at_least_one: bool
    ) -> FileSlice | Cold | None:
        """From the batch that holds the offset up to `max_offset` (exclusive), out of one segment.
        It may end in mid-batch, but holds the first batch whole: with `at_least_one` however large.
        None when there is nothing in between, or nothing that fits; `Cold` when the answer has to
        wait for the disk."""
        if self.folder.failure is not None:
            self.folder.check_online()
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} of {self.topic_partition} is not between "
                f"{self.log_start_offset} and {self.log_end_offset}",
            )
        if offset >= max_offset:
            return None
        try:
            return self._segments.read(
                offset, max_bytes, max_offset, self.next_offset, at_least_one
            )
        except OSError as error:
            raise self.read_failed(error) from error

    def read_failed(self, error: OSError) -> StorageFailure:
        """Also for whoever brought something `Cold` into the page cache."""
        return self.folder.fail(error, f"reading {self.path}")

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset that a transaction holds back from readers of committed records."""
        offset = self.producer_state.transactions.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    def aborted_transactions(
        self, offset: int, records: FileSlice, max_offset: int
    ) -> list[AbortedTransaction] | Cold:
        """Those that overlap what was read from the offset, up to `max_offset` (exclusive)."""
        try:
            return self._segments.aborted_transactions(
                offset, records, max_offset, self.next_offset
            )
        except OSError as error:
            raise self.read_failed(error) from error

    @property
    def active(self) -> ActiveSegment:
        return self._segments.active

    async def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is not older than the timestamp. Looks off the loop."""
        return await search(self, timestamp, find_timestamp)

    async def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp. Looks off the loop."""
        return await search(self, None, find_max_timestamp)

    def view(self, timestamp: int | None) -> tuple[list[ClosedView], ActiveView]:
        """For `timestamp_search`: the segments as they are now."""
        segments, written = self._segments, self._segments.written_bytes
        closed = [ClosedView(each, written(each)) for each in segments.closed]
        return closed, view_active(segments.active, written(segments.active), timestamp)

    def check_not_deleted(self) -> None:
        if self.is_deleted:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} was deleted"
            )

    # Leader epochs

    def begin_leader_epoch(self, epoch: int) -> None:
        """From here on `epoch` writes."""
        self._epoch_checkpoint.begin(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Durability

    @property
    def recovery_point(self) -> int:
        return self._flusher.recovery_point

    @property
    def last_flush_ms(self) -> int:
        return self._flusher.last_flush_ms

    @property
    def is_flush_due(self) -> bool:
        """Whether as many records as `flush.messages` says are not on the disk yet."""
        unflushed = self.log_end_offset - self._flusher.recovery_point
        return unflushed >= self._config.flush_messages

    def flush_soon(self) -> None:
        """Begins a flush unless one is under way that has not begun to sync."""
        self._flusher.flush_soon(self._segments.active, self.next_offset)

    def flush(self) -> asyncio.Future[None]:
        """Makes everything appended so far durable, off the loop; then the recovery point
        advances. With the future done, an fsync has covered it."""
        return self._flusher.flush(self._segments.active, self.next_offset)

    def _take_snapshot(self, offset: int) -> None:
        """Of the producer state, which is that at the log's end."""
        content = encode_snapshot(self.producer_state.producers.values())
        self.snapshots.add(offset, content)
        self._submit(self.snapshots.write, offset)

    def _remove_snapshot(self, offset: int) -> None:
        if self.snapshots.discard(offset):
            self._submit(self.folder.disk.remove, self.snapshots.path(offset))

    # Losing records, on purpose

    def advance_log_start_offset(self, offset: int) -> None:
        """Records below are gone (DeleteRecords, retention, a leader that has moved on). Whole
        segments go when retention is applied next."""
        self.folder.check_online()
        assert offset <= self.log_end_offset, "the log cannot start after its end"
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.leader_epochs.truncate_from_start(offset):
            self._epoch_checkpoint.write()

    def delete_segments(self, count: int) -> None:
        """Removes the oldest closed segments: from reading at once, from the disk after
        `file.delete.delay.ms`. The queue renames them, after it has written the snapshot that
        remembers their producers."""
        gone = self._segments.drop_oldest(count)
        self._segments.active.is_entry_synced = False
        self.advance_log_start_offset(self._segments.first_base_offset)
        for segment in gone:
            segment.forget_files()
            self._remove_snapshot(segment.base_offset)
            self._renaming_count += 1
            self._submit(segment.rename_deleted).add_done_callback(self._renamed)
            self._remove_later(segment.deleted_paths())

    def _renamed(self, _: asyncio.Future[None]) -> None:
        self._renaming_count -= 1

    def truncate_to(self, offset: int) -> bool:
        """Cuts off everything at or above the offset, whole batches. For a follower; waits for the
        disk. False when there was nothing to cut. `folder.drain` comes before, so that nothing
        queued meets a new segment of an old name. The recovery point may go back, and must reach
        its checkpoint (`LogManager.checkpoint_recovery_points`) before the next append."""
        self._check_truncatable()
        if offset >= self.log_end_offset:
            # A leader that wrote nothing in its epoch has left an entry at the end.
            if self.leader_epochs.truncate_from_end(self.log_end_offset):
                self._epoch_checkpoint.write()
            return False
        if offset < self._segments.first_base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        logger.info("truncating %s from %d to %d", self.path, self.log_end_offset, offset)
        gone = self._guard("truncating", lambda: self._segments.truncate(offset, self._config))
        self._discard(gone)
        self._set_end(offset)
        if self.leader_epochs.truncate_from_end(offset):
            self._epoch_checkpoint.write()
        self.log_start_offset = min(self.log_start_offset, offset)
        self._guard("truncating", lambda: self._reload_producers(offset))
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops every record; the next one will have this offset. As with `truncate_to`,
        `folder.drain` comes before."""
        self._check_truncatable()
        logger.info("dropping all of %s to start at %d", self.path, offset)
        drop = self._segments.drop_all
        paths = self._guard("truncating", lambda: drop(offset, self._config))
        self._remove_later(paths)
        for snapshot_offset in list(self.snapshots.offsets):
            self._remove_snapshot(snapshot_offset)
        self._set_end(offset)
        self.log_start_offset = offset
        self.leader_epochs.clear()
        self._epoch_checkpoint.write()
        self.producer_state.reset([], self._clock.now_ms())

    def _check_truncatable(self) -> None:
        self.folder.check_online()
        assert self.next_offset == self.log_end_offset, "an append is pending"
        assert self._renaming_count == 0, "drain the folder before truncating"

    def _set_end(self, offset: int) -> None:
        self.log_end_offset = self.next_offset = offset
        self._flusher.truncated(offset)
        self._set_roll_limits()

    def _reload_producers(self, log_end_offset: int) -> None:
        for offset in list(self.snapshots.offsets):
            if offset > log_end_offset:
                self._remove_snapshot(offset)
        load_producers(
            self.producer_state,
            self.snapshots,
            self.segments,
            log_end_offset=log_end_offset,
            now_ms=self._clock.now_ms(),
        )

    def _discard(self, gone: Sequence[Segment]) -> None:
        """Segments that were cut off. Their names are free again at once."""
        for segment in gone:
            segment.forget_files()
            self._guard("deleting a segment of", segment.rename_deleted)
            self._remove_snapshot(segment.base_offset)
            self._remove_later(segment.deleted_paths())

    def _remove_later(self, paths: Sequence[str]) -> None:
        def remove() -> None:
            if not self.folder.is_closed:
                for path in paths:
                    self._submit(self.folder.disk.remove, path)

        self._clock.call_later(self._config.file_delete_delay_ms / 1000, remove)

    # The rest

    @property
    def segments(self) -> list[Segment]:
        """Oldest first, the active one last."""
        return self._segments.all()

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    async def close(self) -> None:
        """Makes everything durable for a clean stop. The folder's queue must have been drained."""
        if self.is_deleted or self.folder.failure is not None:
            return
        active = self._segments.active
        self._guard("closing", active.finish_indexes)
        end_offset = self.log_end_offset
        if end_offset > 0 and self.snapshots.latest_offset != end_offset:
            self.snapshots.add(end_offset, encode_snapshot(self.producer_state.producers.values()))
        elif self.recovery_point == end_offset and active.is_synced:
            return
        await self._flusher.finish(active, end_offset, self.snapshots)

    def _submit(
        self, function: Callable[P, None], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[None]:
        """Off the loop, in order, unless the log has been deleted by then."""

        def run() -> None:
            if not self.is_deleted:
                function(*args, **kwargs)

        return self.folder.submit(run)

    def _guard(self, doing: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except Exception as error:
            self._fail(error, doing)

    def _fail(self, error: Exception, doing: str) -> NoReturn:
        """Takes the folder offline, whatever it was, a lack of memory or a bug too: the files and
        what is known of them may differ by now."""
        if isinstance(error, StorageFailure):
            raise error
        raise self.folder.fail(error, f"{doing} {self.path}") from error
