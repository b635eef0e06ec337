"""One partition of a coordinator's topic, loaded and served.

An operation sees the state that those before it left. Its records get their place in the log as one
batch and are replayed at once, so that the next operation need not wait; but nothing leaves the
shard before all that it rests on is committed: its answer is parked until then, and so is that of
an operation which has only looked. Where nothing waits to be committed, nothing is parked. Who is
parked for too long hears COORDINATOR_NOT_AVAILABLE and asks again; what it has written stands.

So nothing is ever rolled back. What could not get its place was not replayed; when what has its
place cannot be committed, the shard is lost as a whole: all that is parked is told NOT_COORDINATOR,
and the log tells whoever loads it what was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.records.batch import NO_PRODUCER_ID, BatchHeader, iter_headers
from ottla.records.builder import build_batch
from ottla.records.control import parse_end_txn_marker
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record, iter_records
from ottla.replication.leader import Leader
from ottla.storage.batch_scan import Cold
from ottla.storage.errors import StorageFailure
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
        self,
        leader: Leader,
        make_state: Callable[[ShardTimers], S],
        clock: Clock,
        answer_timeout_ms: int,
    ) -> None:
        self.leader = leader
        self._clock = clock
        self._answer_timeout_ms = answer_timeout_ms
        self._timers = ShardTimers(self, clock)
        self._state = make_state(self._timers)
        self._parked: set[asyncio.Future[None]] = set()
        self._is_loaded = False
        self.is_closed = False
        """Leadership is gone, or the disk."""

    # -- loading ----------------------------------------------------------------------------

    async def load(self) -> int:
        """Replays the log, in slices; returns how many records. What is appended meanwhile, and
        replayed too, are markers: this shard itself does not serve yet, but transactions that it
        has offsets of may end."""
        record_count = 0
        log = self.leader.log
        if log.is_flush_due:
            # A kill may have come between a write and its fsync. What clients are told by this
            # state must not be taken back by a loss of power: AddPartitionsToTxn, asked for again,
            # is answered without another write.
            await log.flush()
        offset = log.log_start_offset
        slice_ends_s = self._clock.monotonic_s() + LOAD_SLICE_S
        while offset < log.next_offset and not self.is_closed:
            if offset >= log.log_end_offset:
                try:
                    await self._committed(None)  # A marker is being written.
                except KafkaError:
                    if not self.is_closed:
                        log.folder.check_online()
                        raise
                continue
            found = log.read(offset, _LOAD_BYTES, max_offset=log.log_end_offset, at_least_one=True)
            if found is None:
                break
            try:
                content = memoryview(
                    await log.folder.workers.submit(found.file.read_at, found.offset, found.length)
                )
            except OSError as error:
                raise log.read_failed(error) from error
            if isinstance(found, Cold):
                continue
            began_at = offset
            for position, header in iter_headers(content, allow_partial=True):
                if header.next_offset <= offset:
                    break
                offset = header.next_offset
                batch = content[position : position + header.size_bytes]
                if header.is_control:
                    self._replay_marker(header, batch)
                    continue
                record_count += header.record_count
                producer_id = header.producer_id
                try:
                    for number, record in enumerate(iter_records(batch)):
                        self._replay_loaded(record, producer_id)
                        if not number & 15 and self._clock.monotonic_s() >= slice_ends_s:
                            await asyncio.sleep(0)
                            slice_ends_s = self._clock.monotonic_s() + LOAD_SLICE_S
                except CorruptRecord as error:  # The rest of its batch with it.
                    self._pass_over(header.base_offset, error)
            if offset == began_at:
                raise CorruptRecord(f"what lies at offset {offset} is no record batch")
        if not self.is_closed:
            # At once: a marker that came after the last look at the log would be overlooked.
            self.serve()
        return record_count

    def serve(self) -> None:
        """From now on: there is nothing to load, or it is loaded."""
        self._state.loaded()
        self._is_loaded = True  # Not before: a state that has only half begun serves nobody.

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
            self.leader.topic_partition,
            offset,
            error,
        )

    def close(self) -> None:
        self.is_closed = True
        self._timers.cancel_all()
        self._state.unloaded()
        for parked in self._parked:
            if not parked.done():
                parked.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
        self._parked.clear()

    # -- serving ----------------------------------------------------------------------------

    @property
    def is_serving(self) -> bool:
        return self._is_loaded and not self.is_closed

    async def read(self, operation: Callable[[S], T]) -> T:
        """Looks at the state. Raises KafkaError while there is none."""
        self._check_serving()
        try:
            return operation(self._state)
        finally:  # A refusal, too, may rest on what is not committed.
            if not self.leader.is_all_committed:
                await self._committed(self._answer_timeout_ms)

    def tell(self, operation: Callable[[S], None]) -> None:
        """News of the world outside: no records, no answer."""
        self._check_serving()
        operation(self._state)

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        """Its marker has its place in the log. While this is loading, loading comes to it."""
        if self.is_serving:
            self._state.end_transaction(producer_id, is_commit)
            self._lose_unless_committed()

    async def write(
        self,
        operation: Callable[[S], Result[T]],
        within: Transaction | None = None,
        *,
        is_patient: bool = False,
    ) -> T:
        """Runs an operation; returns its response when that rests on committed records only.
        Within a transaction its own wait for that one's end. Who is patient waits for as long as
        that takes."""
        self._check_serving()
        timeout_ms = None if is_patient else self._answer_timeout_ms
        try:
            result = operation(self._state)
        except KafkaError:
            if not self.leader.is_all_committed:
                await self._committed(timeout_ms)  # It may rest on what is not.
            raise
        if result.records:
            try:
                self._append(result, within)
            except KafkaError as error:
                failure = as_coordinator_error(error)
                if result.on_failed is not None:
                    result.on_failed(failure)
                if not (isinstance(result.response, Deferred) and result.response.is_resolved):
                    raise failure from error
        if result.on_committed is not None:
            self._call_when_committed(result.on_committed)
        response = result.response
        answer = await _resolved(response) if isinstance(response, Deferred) else response
        if not self.leader.is_all_committed:
            if result.timeout_ms is not None and not is_patient:
                timeout_ms = result.timeout_ms
            await self._committed(timeout_ms)
        return answer

    def _append(self, result: Result[Any], within: Transaction | None) -> None:
        """Gives the records their place, and replays them."""
        producer_id = NO_PRODUCER_ID if within is None else within.producer.producer_id
        try:
            for records, batch in self._batches(result, within):
                try:
                    appended = self.leader.append_own(
                        batch, None if within is None else within.guard
                    )
                except StorageFailure:
                    self._lose()
                    raise
                for offset, record in enumerate(records, appended.first_offset):
                    if record.__class__ is not EncodedRecord:
                        self._state.replay(offset, record, producer_id)  # type: ignore[arg-type]
            if result.on_replayed is not None:
                result.on_replayed()
        finally:  # A batch that was refused may follow one that has its place.
            self._lose_unless_committed()

    def _batches(
        self, result: Result[Any], within: Transaction | None
    ) -> Iterator[tuple[Sequence[AnyRecord], bytearray]]:
        """One, as large as it is: an operation is in the log as a whole or not at all. As many as
        it takes where that is not asked for."""
        if within is not None:
            yield result.records, self._build_within(within, result.records)
            return
        if result.is_atomic:
            yield result.records, self._build(result.records)
            return
        limit_bytes = self.leader.log.config.max_message_bytes // 2
        begun: list[AnyRecord] = []
        begun_bytes = 0
        for record in result.records:
            key, value = encode_record(record)
            size_bytes = len(key) + len(value or b"")
            if begun and begun_bytes + size_bytes > limit_bytes:
                yield begun, self._build(begun)
                begun, begun_bytes = [], 0
            begun.append(record)
            begun_bytes += size_bytes
        yield begun, self._build(begun)

    def _build(self, records: Sequence[AnyRecord]) -> bytearray:
        return build_batch(self._encode(records))

    def _build_within(self, within: Transaction, records: Sequence[AnyRecord]) -> bytearray:
        """It has no sequence number: one who repeats the request means the same offsets."""
        producer, guard = within
        if guard is None and not self.leader.has_open_transaction(*producer):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {producer.producer_id} has ended meanwhile",
            )
        return build_batch(
            self._encode(records),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=True,
        )

    def _encode(self, records: Sequence[AnyRecord]) -> list[Record]:
        now_ms = self._clock.now_ms()
        return [Record(i, now_ms, *encode_record(record)) for i, record in enumerate(records)]

    # -- what waits to be committed ---------------------------------------------------------

    async def _committed(self, timeout_ms: int | None) -> None:
        """Parks whoever asks until all that has a place now is committed, or it took too long."""
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.add(parked)

        def end(error: KafkaError | None) -> None:
            self._parked.discard(parked)
            if parked.done():
                return
            if error is None:
                parked.set_result(None)
            else:
                parked.set_exception(as_coordinator_error(error))

        self.leader.when_committed(end)
        if timeout_ms is None:
            await parked
            return
        too_late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{self.leader.topic_partition} took longer than {timeout_ms} ms to commit",
        )
        timer = self._clock.call_later(timeout_ms / 1000, lambda: end(too_late))
        try:
            await parked
        finally:
            timer.cancel()

    def _call_when_committed(self, on_committed: Callable[[], None]) -> None:
        def call(error: KafkaError | None) -> None:
            if error is None and not self.is_closed:
                on_committed()

        self.leader.when_committed(call)

    def _lose_unless_committed(self) -> None:
        """After something was replayed."""
        if not self.leader.is_all_committed:
            self.leader.when_committed(self._lose_if_failed)

    def _lose_if_failed(self, error: KafkaError | None) -> None:
        if error is not None:
            self._lose()

    def _lose(self) -> None:
        """What this has replayed may never be in the log."""
        if not self.is_closed:
            logger.error("%s can no longer be written to", self.leader.topic_partition)
            self.close()

    def _check_serving(self) -> None:
        if self.is_closed:
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
        def checked(_: Any) -> Result[Any]:
            # Between ringing and this it may have been cancelled or set anew.
            if self._timers.get(name) is not due:
                return Result(None)
            del self._timers[name]
            return operation()

        try:
            # Run again by this timer for an answer that nobody waits for, it would be done twice.
            await self._shard.write(checked, is_patient=True)
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
