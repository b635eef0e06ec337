"""One partition of a coordinator's topic, loaded and served.

Operations of a shard run one after another: each sees the state that the ones before left, with
their records replayed. Nearly always the append is done at once and no operation waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from ottla.coordinators.record import (
    AnyRecord,
    CoordinatorRecord,
    EncodedRecord,
    RecordType,
    decode_record,
    encode_record,
)
from ottla.coordinators.result import Deferred, Result
from ottla.kernel.clock import Clock, Timer
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.records.batch import NO_PRODUCER_ID, BatchHeader, iter_headers
from ottla.records.builder import build_batch
from ottla.records.control import parse_end_txn_marker
from ottla.records.record import Record, iter_records
from ottla.replication.partition import Partition
from ottla.storage.batch_scan import Cold
from ottla.storage.verification import VerificationGuard
from ottla.wire.codec import MalformedMessage

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOAD_SLICE_S = 0.002
"""Loading gives way to others after this long: clients of other partitions must not notice."""

_LOAD_BYTES = 1024 * 1024
_TIMER_RETRY_MS = 500


class State(Protocol):
    """What a shard keeps in memory."""

    RECORD_TYPES: ClassVar[Mapping[int, RecordType]]

    def replay(
        self, offset: int, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """With a producer id it is part of that producer's open transaction, and waits for its
        end."""
        ...

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """What waited for it counts from now on, or never."""
        ...

    def replay_plain(self, key: bytes, value: bytes) -> bool:
        """A short cut for loading: takes the bytes of such records as make up most of the log,
        with the same effect as `replay`. False for all others."""
        ...

    def loaded(self) -> None:
        """All records are replayed: what depends on time begins now."""
        ...

    def unloaded(self) -> None:
        """Leadership is lost or the broker stops: whoever waits is told NOT_COORDINATOR."""
        ...


S = TypeVar("S", bound=State)


class Transaction(NamedTuple):
    """In which records shall be written."""

    producer: ProducerIdAndEpoch
    guard: VerificationGuard | None
    """Handed out by the partition before the transaction coordinator was asked; none where the
    partition has the transaction already. If it ends before the append, that is refused."""


class Shard(Generic[S]):
    """Owned by the runtime, while this broker leads the partition. A crash leaves the log, from
    which the next leader loads the same state."""

    def __init__(
        self, partition: Partition, make_state: Callable[[ShardTimers], S], clock: Clock
    ) -> None:
        self.partition = partition
        self._clock = clock
        self._timers = ShardTimers(self, clock)
        self._state = make_state(self._timers)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_appending = False
        self._appending_producer_id = NO_PRODUCER_ID
        self._ended: list[tuple[int, bool]] = []
        self._is_loaded = False
        self._is_closed = False

    # -- loading ----------------------------------------------------------------------------

    async def load(self) -> int:
        """Replays the log, in slices; returns how many records. What is appended meanwhile, and
        replayed too, are markers: this shard itself does not serve yet, but transactions that it
        has offsets of may end."""
        record_count = 0
        log = self.partition.log
        if log.is_flush_due:
            # A kill may have come between a write and its fsync. What clients are told by this
            # state must not be taken back by a loss of power: AddPartitionsToTxn, asked for again,
            # is answered without another write.
            await log.flush()
        offset = log.log_start_offset
        slice_ends_s = self._clock.monotonic_s() + LOAD_SLICE_S
        while offset < log.log_end_offset and not self._is_closed:
            found = log.read(offset, _LOAD_BYTES, max_offset=log.log_end_offset, at_least_one=True)
            if found is None:
                break
            read = log.folder.workers.submit(found.file.read_at, found.offset, found.length)
            content = memoryview(await read)
            if isinstance(found, Cold):
                continue
            for position, header in iter_headers(content, allow_partial=True):
                offset = header.next_offset
                batch = content[position : position + header.size_bytes]
                if header.is_control:
                    self._replay_marker(header, batch)
                    continue
                record_count += header.record_count
                producer_id = header.producer_id
                for number, record in enumerate(iter_records(batch)):
                    self._replay_loaded(record, producer_id)
                    if not number & 15 and self._clock.monotonic_s() >= slice_ends_s:
                        await asyncio.sleep(0)
                        slice_ends_s = self._clock.monotonic_s() + LOAD_SLICE_S
        if not self._is_closed:
            # At once: a marker that came after the last look at the log would be overlooked.
            self.serve()
        return record_count

    def serve(self) -> None:
        """From now on: there is nothing to load, or it is loaded."""
        self._is_loaded = True
        self._state.loaded()

    def _replay_marker(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            marker = parse_end_txn_marker(batch)
        except KafkaError as error:
            self._pass_over(header.base_offset, error)
        else:
            if marker is not None:
                self._state.end_transaction(header.producer_id, marker.is_commit)

    def _replay_loaded(self, record: Record, producer_id: int) -> None:
        try:
            if (
                producer_id == NO_PRODUCER_ID
                and record.key
                and record.value
                and self._state.replay_plain(record.key, record.value)
            ):
                return
            decoded = decode_record(self._state.RECORD_TYPES, record.key or b"", record.value)
        except MalformedMessage as error:
            self._pass_over(record.offset, error)
            return
        if decoded is not None:
            self._state.replay(record.offset, decoded, producer_id)

    def _pass_over(self, offset: int, error: Exception) -> None:
        logger.error(
            "%s: the record at %d cannot be read and is passed over: %s",
            self.partition.topic_partition,
            offset,
            error,
        )

    def close(self) -> None:
        self._is_closed = True
        self._timers.cancel_all()
        self._state.unloaded()
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
        self._waiting.clear()

    # -- serving ----------------------------------------------------------------------------

    @property
    def is_serving(self) -> bool:
        return self._is_loaded and not self._is_closed

    def read(self, operation: Callable[[S], T]) -> T:
        """Looks at the state. Raises KafkaError while there is none."""
        self._check_serving()
        return operation(self._state)

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        """Its marker is in the log. While this is loading, loading comes to it. Records of the
        transaction that are just being appended are replayed first: they stand before the marker,
        or are refused."""
        if producer_id == self._appending_producer_id:
            self._ended.append((producer_id, is_commit))
        elif self.is_serving:
            self._state.end_transaction(producer_id, is_commit)

    async def write(
        self, operation: Callable[[S], Result[T]], within: Transaction | None = None
    ) -> T:
        """Runs an operation in its turn; returns its response when its records are committed.
        Within a transaction they wait for its end."""
        while self._is_appending and not self._is_closed:
            await self._turn()
        self._check_serving()
        try:
            result = operation(self._state)
        except BaseException:
            self._give_turn()
            raise
        if result.records:
            committed = begin(self._commit(result, within))
            if isinstance(committed, asyncio.Task):
                # Whoever asked for it may go, as a client does whose connection is lost: what is in
                # the log must still be replayed.
                await asyncio.shield(committed)
        else:
            self._give_turn()
            if result.on_written is not None:
                result.on_written()
        response = result.response
        if isinstance(response, Deferred):
            return await _resolved(response)
        return response

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and not self._is_appending:
                self._give_turn()  # It was given to one who is gone.
            raise

    def _give_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _commit(self, result: Result[Any], within: Transaction | None) -> None:
        self._is_appending = True
        producer_id = NO_PRODUCER_ID if within is None else within.producer.producer_id
        self._appending_producer_id = producer_id
        try:
            if within is None:
                offsets = await self._append(result.records)
            else:
                offsets = await self._append_within(within, result.records)
        except KafkaError as error:
            failure = as_coordinator_error(error)
            if result.on_failed is not None:
                result.on_failed(failure)
            if isinstance(result.response, Deferred) and result.response.is_resolved:
                return
            raise failure from error
        else:
            for offset, record in zip(offsets, result.records, strict=True):
                if record.__class__ is not EncodedRecord:
                    self._state.replay(offset, record, producer_id)  # type: ignore[arg-type]
        finally:
            self._is_appending = False
            self._appending_producer_id = NO_PRODUCER_ID
            for ended in self._ended:
                self.transaction_ended(*ended)
            self._ended.clear()
            self._give_turn()
        if result.on_written is not None:
            # Whoever waits for its turn comes after this: what begins now may write at once.
            result.on_written()

    async def _append(self, records: Sequence[AnyRecord]) -> Sequence[int]:
        """In one batch if that is not too large. Returns the offset of each record: a marker may
        come between two batches."""
        now_ms = self._clock.now_ms()
        if len(records) == 1:
            only = Record(0, now_ms, *encode_record(records[0]))
            return await self._append_batch(build_batch((only,)), 1)
        limit_bytes = self.partition.log.config.max_message_bytes // 2
        offsets: list[int] = []
        batch: list[Record] = []
        batch_bytes = 0
        for record in records:
            key, value = encode_record(record)
            size_bytes = len(key) + len(value or b"")
            if batch and batch_bytes + size_bytes > limit_bytes:
                offsets += await self._append_batch(build_batch(batch), len(batch))
                batch, batch_bytes = [], 0
            batch.append(Record(len(batch), now_ms, key, value))
            batch_bytes += size_bytes
        offsets += await self._append_batch(build_batch(batch), len(batch))
        return offsets

    async def _append_within(
        self, within: Transaction, records: Sequence[AnyRecord]
    ) -> Sequence[int]:
        """In one batch or not at all. It has no sequence number: one who repeats the request
        means the same offsets."""
        producer, guard = within
        if guard is None and not self.partition.has_open_transaction(*producer):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {producer.producer_id} has ended meanwhile",
            )
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [Record(i, now_ms, *encode_record(record)) for i, record in enumerate(records)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=True,
        )
        return await self._append_batch(batch, len(records), guard)

    async def _append_batch(
        self, batch: bytearray, record_count: int, guard: VerificationGuard | None = None
    ) -> range:
        appended = self.partition.append_own(batch, guard)
        if isinstance(appended, asyncio.Future):
            appended = await appended
        return range(appended.first_offset, appended.first_offset + record_count)

    def _check_serving(self) -> None:
        if self._is_closed:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not self._is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class ShardTimers:
    """The timers of one shard."""

    def __init__(self, shard: Shard[Any], clock: Clock) -> None:
        self._shard = shard
        self._clock = clock
        self._timers: dict[str, Timer] = {}
        self._running: set[asyncio.Task[None]] = set()

    def schedule(self, name: str, delay_ms: int, operation: Callable[[], Result[Any]]) -> None:
        self.cancel(name)
        self._timers[name] = self._clock.call_later(
            max(0, delay_ms) / 1000, lambda: self._ring(name, operation)
        )

    def cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def is_scheduled(self, name: str) -> bool:
        return name in self._timers

    def cancel_all(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, name: str, operation: Callable[[], Result[Any]]) -> None:
        due = self._timers.get(name)
        task = asyncio.get_running_loop().create_task(self._run(name, due, operation))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(
        self, name: str, due: Timer | None, operation: Callable[[], Result[Any]]
    ) -> None:
        def in_turn(_: Any) -> Result[Any]:
            # While it waited for its turn it may have been cancelled or set anew.
            if self._timers.get(name) is not due:
                return Result(None)
            del self._timers[name]
            return operation()

        try:
            await self._shard.write(in_turn)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_COORDINATOR and name not in self._timers:
                self.schedule(name, _TIMER_RETRY_MS, operation)


async def _resolved(deferred: Deferred[T]) -> T:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def resolve(value: T) -> None:
        if not future.done():
            future.set_result(value)

    deferred.on_resolved(resolve)
    return await future


def as_coordinator_error(error: KafkaError) -> KafkaError:
    """What a client of the coordinator can make something of."""
    match error.code:
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return KafkaError(ErrorCode.NOT_COORDINATOR, error.message)
        case (
            ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)
        case _:
            return error
