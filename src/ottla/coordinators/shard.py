"""One partition of a coordinator's topic, loaded and served.

An operation sees the state that those before it left. Its records get their place in the log as one
batch and are replayed at once, so that the next operation need not wait; but nothing leaves the
shard before all that it rests on is committed: its answer is parked until then, and so is that of
an operation which has only looked. Where nothing waits to be committed, nothing is parked. Who is
parked for too long hears COORDINATOR_NOT_AVAILABLE and asks again; what it has written stands.

An operation is whole: its records are one batch, and whoever comes while it is planned, encoded or
replayed in slices, because it is large, waits for its end (`operation_queue`).

So nothing is ever rolled back. What could not get its place was not replayed; when what has its
place cannot be committed, the shard is lost as a whole: all that is parked is told NOT_COORDINATOR,
and the log tells whoever loads it what was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from ottla.coordinators.log_batches import written_batches
from ottla.coordinators.operation_queue import OperationQueue
from ottla.coordinators.record import (
    AnyRecord,
    CoordinatorRecord,
    EncodedRecord,
    RecordType,
    decode_record,
    encode_long_record,
    encode_record,
    is_long,
)
from ottla.coordinators.result import Deferred, Planned, Result
from ottla.kernel.clock import Clock, Timer
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerId, ProducerIdAndEpoch
from ottla.kernel.slices import Slices, Steps
from ottla.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from ottla.records.builder import assemble_batch
from ottla.records.builder import encode_record as encode_in_batch
from ottla.records.control import parse_end_txn_marker
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record, iter_records
from ottla.replication.leader import Leader
from ottla.storage.errors import StorageFailure
from ottla.storage.verification import VerificationGuard
from ottla.wire.codec import MalformedMessage

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOAD_SLICE_S = 0.002
"""Loading gives way to others after this long: clients of other partitions must not notice."""

_TIMER_RETRY_MS = 500
_RECORDS_AT_ONCE = 8


class State(Protocol):
    """What a shard keeps in memory."""

    RECORD_TYPES: ClassVar[Mapping[int, RecordType]]

    def replay(
        self, offset: int, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """With a producer id it is part of that producer's open transaction, and waits for its
        end."""
        ...

    def end_transaction(self, producer_id: int, is_commit: bool) -> Steps[None]:
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


_NO_TRANSACTION = Transaction(
    ProducerIdAndEpoch(ProducerId(NO_PRODUCER_ID), NO_PRODUCER_EPOCH), None
)


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
        # Ordered, so that a simulation repeats.
        self._parked: dict[asyncio.Future[None], None] = {}
        self._operations = OperationQueue(clock)
        self._told_later: set[asyncio.Task[None]] = set()
        self._replayed_to = 0
        self._is_loaded = False
        self.is_closed = False
        """Leadership is gone, or the disk."""

    # -- loading ----------------------------------------------------------------------------

    async def load(self, turn: asyncio.Lock | None = None) -> int:
        """Replays the log to its end, in slices, and serves when all that it has replayed is
        committed: what a leader before this one has written last may be on no other broker, and
        nobody is to hear of it before. Returns how many records there were. What is appended
        meanwhile, and replayed too, are markers: this shard itself does not serve yet, but
        transactions that it has offsets of may end. Other shards have their turn while this one
        waits for followers."""
        turn = turn or asyncio.Lock()
        log = self.leader.log
        if log.is_flush_due:
            # A kill may have come between a write and its fsync. What clients are told by this
            # state must not be taken back by a loss of power: AddPartitionsToTxn, asked for again,
            # is answered without another write.
            await log.flush()
        self._replayed_to = log.log_start_offset
        record_count = 0
        has_settled = False
        while not self._is_over:
            async with turn:
                record_count += await self._replay_log()
                # All that there was at the election; markers since then are parked like any write.
                has_settled = has_settled or self.leader.is_all_committed
                if has_settled and self._replayed_to >= log.next_offset and not self._is_over:
                    # At once: a marker that came after the last look would be overlooked.
                    self.serve()
                    break
            try:
                await self._committed(None)
            except KafkaError:
                if not self._is_over:
                    log.folder.check_online()
                    raise
            has_settled = True
        return record_count

    async def _replay_log(self) -> int:
        """From where it has come to, up to what is written. Returns how many records."""
        record_count = 0
        slice_ends_s = self._clock.monotonic_s() + LOAD_SLICE_S
        slices = Slices(self._clock)
        log = self.leader.log
        async with aclosing(written_batches(log, self._replayed_to)) as batches:
            async for header, batch in batches:
                if self._is_over:
                    return record_count
                self._replayed_to = header.next_offset
                if header.is_control:
                    async for _ in slices.of(self._replay_marker(header, batch)):
                        pass
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
        self._replayed_to = max(self._replayed_to, log.log_end_offset)
        return record_count

    def serve(self) -> None:
        """From now on: there is nothing to load, or it is loaded."""
        self._state.loaded()
        self._is_loaded = True  # Not before: a state that has only half begun serves nobody.

    def _replay_marker(self, header: BatchHeader, batch: memoryview) -> Steps[None]:
        try:
            marker = parse_end_txn_marker(batch)
        except KafkaError as error:
            self._pass_over(header.base_offset, error)
        else:
            if marker is not None:
                yield from self._state.end_transaction(header.producer_id, marker.is_commit)

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
        self._operations.close()
        self._timers.cancel_all()
        self._state.unloaded()
        for parked in self._parked:
            if not parked.done():
                parked.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
        self._parked.clear()

    # -- serving ----------------------------------------------------------------------------

    @property
    def is_serving(self) -> bool:
        return self._is_loaded and not self._is_over

    async def read(self, operation: Callable[[S], T]) -> T:
        """Looks at the state. Raises KafkaError while there is none."""
        self._check_serving()
        has_turn = self._operations.is_busy
        if has_turn:
            await self._operations.turn()
            self._check_serving()
        try:
            return operation(self._state)
        finally:  # A refusal, too, may rest on what is not committed.
            if has_turn:
                self._operations.pass_on()
            if not self.leader.is_all_committed:
                await self._committed(self._answer_timeout_ms)

    def tell(self, operation: Callable[[S], None]) -> None:
        """News of the world outside: no records, no answer."""
        self._check_serving()
        if self._operations.is_busy:
            self._in_turn(self._told(operation))
        else:
            operation(self._state)

    def _told(self, operation: Callable[[S], None]) -> Steps[None]:
        operation(self._state)
        yield

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        """Its marker has its place in the log. While this is loading, loading comes to it."""
        if self.is_serving:
            self._in_turn(self._state.end_transaction(producer_id, is_commit))
            self._lose_unless_committed()

    def _in_turn(self, steps: Steps[None]) -> None:
        """At once, if nobody is before it. What nobody waits for needs no error either: it ends
        with the shard only."""
        if not self._operations.is_busy:
            self._operations.run(steps)
            return

        async def wait() -> None:
            with suppress(KafkaError):
                await self._operations.turn()
                self._operations.run(steps)

        begun = begin(wait())  # It stands in the queue now: the order counts.
        if isinstance(begun, asyncio.Task):
            self._told_later.add(begun)
            begun.add_done_callback(self._told_later.discard)

    async def write(
        self,
        operation: Callable[[S], Planned[T]],
        within: Transaction | None = None,
        *,
        is_patient: bool = False,
    ) -> T:
        """Runs an operation; returns its response when that rests on committed records only.
        Within a transaction its own wait for that one's end. Who is patient waits for as long as
        that takes."""
        self._check_serving()
        if self._operations.is_busy:
            await self._operations.turn()
        result = self._operations.run(self._perform(operation, within))
        if isinstance(result, asyncio.Task):
            result = await asyncio.shield(result)
        timeout_ms = None if is_patient else self._answer_timeout_ms
        if isinstance(result, KafkaError):
            try:
                if not self.leader.is_all_committed:
                    await self._committed(timeout_ms)  # It may rest on what is not.
                raise result
            finally:
                del result  # Its traceback refers to this frame: a cycle (`kernel.garbage`).
        response = result.response
        answer = await _resolved(response) if isinstance(response, Deferred) else response
        if not self.leader.is_all_committed:
            if result.timeout_ms is not None and not is_patient:
                timeout_ms = result.timeout_ms
            await self._committed(timeout_ms)
        return answer

    def _perform(
        self, operation: Callable[[S], Planned[T]], within: Transaction | None
    ) -> Steps[Result[T] | KafkaError]:
        """Returns the error of an operation that is refused. Raises what keeps its records from
        their place."""
        self._check_serving()
        try:
            planned = operation(self._state)
            result = planned if isinstance(planned, Result) else (yield from planned)
        except KafkaError as error:
            return error
        if result.records:
            try:
                yield from self._append(result, within)
            except KafkaError as error:
                failure = as_coordinator_error(error)
                if result.on_failed is not None:
                    result.on_failed(failure)
                if not (isinstance(result.response, Deferred) and result.response.is_resolved):
                    raise failure from error
        if result.on_committed is not None:
            self._call_when_committed(result.on_committed)
        return result

    def _append(self, result: Result[Any], within: Transaction | None) -> Steps[None]:
        """Gives the records their place, and replays them. As one batch, however large: an
        operation is in the log as a whole or not at all. As many as it takes where that is not
        asked for."""
        limit_bytes = self.leader.log.config.max_message_bytes
        if not result.is_atomic:
            limit_bytes //= 2
        now_ms = self._clock.now_ms()
        records: list[AnyRecord] = []
        encoded: list[bytes] = []
        size_bytes = 0
        try:
            for record in result.records:
                if is_long(record):
                    key, value = yield from encode_long_record(record)
                else:
                    key, value = encode_record(record)
                size_bytes += len(key) + len(value or b"")
                if size_bytes > limit_bytes:
                    if result.is_atomic:
                        self.leader.check_size(size_bytes)
                    elif records:
                        yield from self._place(records, encoded, now_ms, within)
                        records, encoded = [], []
                        size_bytes = len(key) + len(value or b"")
                encoded.append(encode_in_batch(Record(len(records), now_ms, key, value), 0, now_ms))
                records.append(record)
                if not len(records) % _RECORDS_AT_ONCE:
                    yield
            yield from self._place(records, encoded, now_ms, within)
            if result.on_replayed is not None:
                result.on_replayed()
        finally:  # A batch that was refused may follow one that has its place.
            self._lose_unless_committed()

    def _place(
        self,
        records: list[AnyRecord],
        encoded: list[bytes],
        now_ms: int,
        within: Transaction | None,
    ) -> Steps[None]:
        """Within a transaction it has no sequence number: one who repeats the request means the
        same offsets."""
        (producer_id, producer_epoch), guard = within or _NO_TRANSACTION
        batch = assemble_batch(
            b"".join(encoded),
            record_count=len(records),
            base_offset=0,
            last_offset_delta=len(records) - 1,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            attributes=0 if within is None else TRANSACTIONAL_FLAG,
        )
        if within is not None and guard is None:
            # Not earlier: its marker may have come while this was planned.
            self._check_open(producer_id, producer_epoch)
        try:
            appended = self.leader.append_own(batch, guard)
        except StorageFailure as error:
            self._lose(error)
            raise
        for offset, record in enumerate(records, appended.first_offset):
            if record.__class__ is not EncodedRecord:
                self._state.replay(offset, record, producer_id)  # type: ignore[arg-type]
            yield

    def _check_open(self, producer_id: int, producer_epoch: int) -> None:
        if not self.leader.has_open_transaction(producer_id, producer_epoch):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {producer_id} has ended meanwhile",
            )

    # -- what waits to be committed ---------------------------------------------------------

    async def _committed(self, timeout_ms: int | None) -> None:
        """Parks whoever asks until all that has a place now is committed, or it took too long."""
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked[parked] = None

        def end(error: KafkaError | None) -> None:
            self._parked.pop(parked, None)
            if parked.done():
                return
            if error is None:
                parked.set_result(None)
            else:
                parked.set_exception(as_coordinator_error(error))

        until_committed = self.leader.when_committed(end)
        timer: Timer | None = None
        if timeout_ms is not None:
            too_late = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.leader.topic_partition} took longer than {timeout_ms} ms to commit",
            )
            timer = self._clock.call_later(timeout_ms / 1000, lambda: end(too_late))
        try:
            await parked
        finally:
            if timer is not None:
                timer.cancel()
            self.leader.give_up(until_committed)

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
            self._lose(error)

    def _lose(self, error: KafkaError) -> None:
        """What this has replayed may never be in the log."""
        if not self._is_over:
            logger.error("%s can no longer be written to: %s", self.leader.topic_partition, error)
        if not self.is_closed:
            self.close()

    @property
    def _is_over(self) -> bool:
        """The leader's end may come before this is told of it."""
        return self.is_closed or self.leader.is_closed

    def _check_serving(self) -> None:
        if self._is_over:
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

    def schedule(self, name: str, delay_ms: int, operation: Callable[[], Planned[Any]]) -> None:
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

    def _ring(self, name: str, operation: Callable[[], Planned[Any]]) -> None:
        due = self._timers.get(name)
        task = asyncio.get_running_loop().create_task(self._run(name, due, operation))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(
        self, name: str, due: Timer | None, operation: Callable[[], Planned[Any]]
    ) -> None:
        def checked(_: Any) -> Planned[Any]:
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
