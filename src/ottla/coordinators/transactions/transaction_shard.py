"""One partition of `__transaction_state`: the transactional ids that hash to it.

Each operation looks at one id and returns the record of its next state, or raises KafkaError.
While a transaction is prepared it takes no other step than to become complete: whoever asks is told
CONCURRENT_TRANSACTIONS, and comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeVar

from ottla.coordinators.record import CoordinatorRecord, RecordType
from ottla.coordinators.regex import matching
from ottla.coordinators.result import Result
from ottla.coordinators.transactions.context import TransactionContext
from ottla.coordinators.transactions.records import (
    RECORD_TYPES,
    TransactionLogKey,
    TransactionLogValue,
    by_topic,
)
from ottla.coordinators.transactions.state import STATES_BY_TEXT, TransactionState
from ottla.coordinators.transactions.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    Transaction,
    is_exhausted,
    new_transaction,
    tombstone,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerId, ProducerIdAndEpoch, TopicPartition
from ottla.kernel.slices import Steps
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages import describe_transactions, list_transactions
from ottla.wire.messages.describe_transactions import TopicData
from ottla.wire.messages.list_transactions import ListTransactionsRequest

logger = logging.getLogger(__name__)

T = TypeVar("T")

NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

SERVER_VERSION = BUMPING_VERSION
"""The transactions version of aborts that the coordinator itself decides on."""

_TIMEOUTS = "time-outs"
_EXPIRY = "expiry"
_EXPIRY_SLICE = 1000
_EXPIRY_PAUSE_MS = 10


class ProducerIdNeeded(Exception):
    """The operation cannot be done without another producer id: it has changed nothing, and is to
    be called again with one. Ids come from the coordination store, for which a shard cannot
    wait."""


class ListFilter:
    """Which ids a client wants to see. Made once for all shards: a request may have a million
    filters, and to go through them for each of fifty shards stalled the broker for seconds."""

    def __init__(self, request: ListTransactionsRequest) -> None:
        self.pattern = request.transactional_id_pattern
        self._states = {STATES_BY_TEXT.get(text) for text in request.state_filters}
        self._producer_ids = set(request.producer_id_filters)
        self._duration_ms = request.duration_filter

    def accepts(self, transaction: Transaction, now_ms: int) -> bool:
        """All but the pattern, which is matched for many at once."""
        return (
            (not self._states or transaction.state in self._states)
            and (not self._producer_ids or transaction.producer_id in self._producer_ids)
            and (
                self._duration_ms < 0 or now_ms - transaction.start_timestamp_ms > self._duration_ms
            )
        )


class TransactionShard:
    """Owned by the runtime, while this broker leads the partition. A crash leaves the log: what was
    prepared there is finished by the next leader."""

    RECORD_TYPES: ClassVar[Mapping[int, RecordType]] = RECORD_TYPES

    def __init__(self, context: TransactionContext) -> None:
        self._context = context
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        """Which may time out."""

    # -- producers --------------------------------------------------------------------------

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        fresh_producer_id: ProducerId | None = None,
    ) -> Result[ProducerIdAndEpoch | None]:
        """What the producer is from now on. None: the transaction that its predecessor left open is
        being aborted, and it is to come again. `expected` is what a producer holds itself to be
        that wants to go on after an error (KIP-360)."""
        now_ms = self._context.now_ms()
        current = self._transactions.get(transactional_id)
        if current is None:
            current = new_transaction(
                transactional_id, _needed(fresh_producer_id), timeout_ms, now_ms
            )
        _check_not_prepared(current)
        if expected is not None and not _is_or_was(current, expected):
            raise _fenced(current, expected)
        if current.state is TransactionState.ONGOING:
            aborting = self._prepare(current, False, SERVER_VERSION, fresh_producer_id)
            return self._written(aborting, None)
        if current.is_epoch_exhausted and (
            expected is None or expected.producer_epoch == current.producer_epoch
        ):
            last_epoch = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
            producer_id = _needed(fresh_producer_id)
            begun = current.with_producer_id(producer_id, last_epoch, timeout_ms, now_ms)
        else:
            epoch, last_epoch = _next_epochs(current, expected)
            begun = current.with_epoch(epoch, last_epoch, timeout_ms, now_ms)
        return self._written(begun, begun.producer)

    # -- partitions -------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        transaction_version: int,
    ) -> Result[None]:
        current = self._find(transactional_id)
        # First: the producer may already be what the end of its last transaction makes of it.
        _check_not_prepared(current)
        _check_producer(current, producer)
        added = frozenset(partitions)
        if current.state is TransactionState.ONGOING and added <= current.partitions:
            return Result(None)
        now_ms = self._context.now_ms()
        return self._written(current.with_partitions(added, transaction_version, now_ms), None)

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether the transaction writes to them. Raises KafkaError if to none, and why."""
        current = self._find(transactional_id)
        _check_producer(current, producer)
        _check_not_prepared(current)
        return {
            at: ErrorCode.NONE if at in current.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for at in partitions
        }

    # -- the end ----------------------------------------------------------------------------

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        transaction_version: int,
        fresh_producer_id: ProducerId | None = None,
    ) -> Result[ProducerIdAndEpoch]:
        """What the producer is for its next transaction; with versions before 2 that is not
        told."""
        current = self._find(transactional_id)
        if transaction_version < BUMPING_VERSION:
            _check_producer(current, producer)
            _check_not_prepared(current)
            if current.state is TransactionState.ONGOING:
                ended = self._prepare(current, is_commit, transaction_version=0)
                return self._written(ended, NO_PRODUCER)
            _check_outcome(current, is_commit)
            return Result(NO_PRODUCER)
        _check_not_prepared(current)
        if _is_retried_end(current, producer):
            _check_outcome(current, is_commit)
            return Result(current.producer)
        _check_producer(current, producer)
        if is_commit and current.state is not TransactionState.ONGOING:
            raise _wrong_state(current, is_commit)
        ended = self._prepare(current, is_commit, transaction_version, fresh_producer_id)
        return self._written(ended, ended.goes_on_as)

    def abort_timed_out(
        self, transactional_id: str, fresh_producer_id: ProducerId | None = None
    ) -> Result[None]:
        current = self._transactions.get(transactional_id)
        if current is None or not current.is_timed_out(self._context.now_ms()):
            return Result(None)  # It ended meanwhile.
        logger.info("transaction of %r timed out and is aborted", transactional_id)
        aborting = self._prepare(current, False, SERVER_VERSION, fresh_producer_id)
        return self._written(aborting, None)

    def complete(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Result[None]:
        """The markers of what this producer has prepared are written."""
        current = self._transactions.get(transactional_id)
        if current is None or not current.state.is_prepared or current.producer != producer:
            return Result(None)  # Done already.
        return self._written(current.completed(self._context.now_ms()), None)

    def _prepare(
        self,
        current: Transaction,
        is_commit: bool,
        transaction_version: int,
        fresh_producer_id: ProducerId | None = None,
    ) -> Transaction:
        next_producer_id = ProducerId(NO_PRODUCER_ID)
        if transaction_version >= BUMPING_VERSION and current.is_epoch_exhausted:
            next_producer_id = _needed(fresh_producer_id)
        return current.prepared(
            is_commit, transaction_version, next_producer_id, self._context.now_ms()
        )

    def _written(self, changed: Transaction, response: T) -> Result[T]:
        def on_committed() -> None:
            if changed.state.is_prepared:
                self._context.followups.finish(changed)
            elif changed.state is TransactionState.ONGOING:
                self._watch_timeouts()

        return Result(
            response,
            (changed.to_record(),),
            on_replayed=lambda: self._take(changed),
            on_committed=on_committed,
            timeout_ms=changed.timeout_ms,
        )

    def _find(self, transactional_id: str) -> Transaction:
        current = self._transactions.get(transactional_id)
        if current is None:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"transactional id {transactional_id!r} is not known: it may have expired",
            )
        return current

    # -- to be looked at --------------------------------------------------------------------

    def list_ids(self, wanted: ListFilter) -> list[list_transactions.TransactionState]:
        now_ms = self._context.now_ms()
        found = [each for each in self._transactions.values() if wanted.accepts(each, now_ms)]
        if wanted.pattern:
            names = [transaction.transactional_id for transaction in found]
            matched = matching(wanted.pattern, names)
            found = [each for each in found if each.transactional_id in matched]
        return [
            list_transactions.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.text,
            )
            for transaction in found
        ]

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        current = self._transactions.get(transactional_id)
        if current is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                f"transactional id {transactional_id!r} is not known",
            )
        return describe_transactions.TransactionState(
            transactional_id=transactional_id,
            transaction_state=current.state.text,
            transaction_timeout_ms=current.timeout_ms,
            transaction_start_time_ms=current.start_timestamp_ms,
            producer_id=current.producer_id,
            producer_epoch=current.producer_epoch,
            topics=[
                TopicData(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(current.partitions).items()
            ],
        )

    # -- time -------------------------------------------------------------------------------

    def _watch_timeouts(self) -> None:
        """Only while something can time out: a broker at rest does nothing."""
        timers = self._context.timers
        if not timers.is_scheduled(_TIMEOUTS):
            config = self._context.config()
            interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            timers.schedule(_TIMEOUTS, interval_ms, self._find_timed_out)

    def _find_timed_out(self) -> Result[None]:
        now_ms = self._context.now_ms()
        timed_out = [
            transactional_id
            for transactional_id in self._ongoing
            if self._transactions[transactional_id].is_timed_out(now_ms)
        ]
        if timed_out:
            self._context.followups.abort_timed_out(timed_out)
        if self._ongoing:
            # Also for those: their abort may fail.
            self._watch_timeouts()
        return Result(None)

    def _schedule_expiry(self) -> None:
        """A little earlier at random: the shards of a broker begin together, and should not come
        to this together."""
        interval_ms = (
            self._context.config().transaction_remove_expired_transaction_cleanup_interval_ms
        )
        early_ms = self._context.rng.randrange(interval_ms // 10 + 1)
        self._context.timers.schedule(_EXPIRY, interval_ms - early_ms, self._begin_expiry)

    def _begin_expiry(self) -> Result[None]:
        unused_since_ms = (
            self._context.now_ms() - self._context.config().transactional_id_expiration_ms
        )
        return self._expire(
            [
                transaction.transactional_id
                for transaction in self._transactions.values()
                if _is_unused(transaction, unused_since_ms)
            ],
            unused_since_ms,
        )

    def _expire(self, transactional_ids: list[str], unused_since_ms: int) -> Result[None]:
        """In slices: nobody should wait for a million of them."""
        records: list[CoordinatorRecord] = []
        while transactional_ids and len(records) < _EXPIRY_SLICE:
            current = self._transactions.get(transactional_ids.pop())
            if current is not None and _is_unused(current, unused_since_ms):
                records.append(tombstone(current.transactional_id))
        if transactional_ids:
            self._context.timers.schedule(
                _EXPIRY,
                _EXPIRY_PAUSE_MS,
                lambda: self._expire(transactional_ids, unused_since_ms),
            )
        else:
            self._schedule_expiry()
        return Result(None, records, is_atomic=False)

    # -- what the runtime calls -------------------------------------------------------------

    def replay(
        self, offset: int, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey), "there is one type of records"
        transactional_id = key.transactional_id
        if value is None:
            self._transactions.pop(transactional_id, None)
            self._ongoing.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue), "there is one type of records"
        try:
            transaction = Transaction.from_record(transactional_id, value)
        except ValueError as error:
            logger.error("the record at %d is passed over: %s", offset, error)
            return
        self._take(transaction)

    def _take(self, transaction: Transaction) -> None:
        """It has its place in the log."""
        transactional_id = transaction.transactional_id
        self._transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        else:
            self._ongoing.pop(transactional_id, None)

    def end_transaction(self, producer_id: int, is_commit: bool) -> Steps[None]:
        """A client can name this log as a partition of its transaction, but not write to it."""
        yield from ()

    def replay_plain(self, key: bytes, value: bytes) -> bool:
        return False

    def loaded(self) -> None:
        for transaction in self._transactions.values():
            if transaction.state.is_prepared:
                self._context.followups.finish_later(transaction)
        if self._ongoing:
            self._watch_timeouts()
        self._schedule_expiry()

    def unloaded(self) -> None:
        """What goes on for its transactions ends with the leadership (`Followups`)."""


def _needed(fresh_producer_id: ProducerId | None) -> ProducerId:
    if fresh_producer_id is None:
        raise ProducerIdNeeded
    return fresh_producer_id


def _is_or_was(current: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """False for one whose producer id was given to nobody, or taken from it. One of whom nothing
    is known (any more) may go on as a new producer. One whose epochs were used up may not have
    heard that it got another id. Epochs are compared later."""
    return (
        current.producer_epoch == NO_PRODUCER_EPOCH
        or current.producer_id == expected.producer_id
        or (
            current.previous_producer_id == expected.producer_id
            and is_exhausted(expected.producer_epoch)
        )
    )


def _next_epochs(current: Transaction, expected: ProducerIdAndEpoch | None) -> tuple[int, int]:
    """The next one, and by which a retry of this will be known."""
    epoch = current.producer_epoch
    if expected is None:
        return epoch + 1, NO_PRODUCER_EPOCH  # A new producer: nobody may retry.
    if epoch == NO_PRODUCER_EPOCH or expected.producer_epoch == epoch:
        return epoch + 1, epoch
    if expected.producer_epoch == current.last_producer_epoch:
        return epoch, current.last_producer_epoch  # It did not hear the answer.
    raise _fenced(current, expected)


def _is_retried_end(current: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """With transactions version 2 an end raises the epoch: by that a retry is told from the end of
    the next transaction. But it must have been such an end. Kafka 4.3 does not look: there a fenced
    producer of version 2 is told of success, and gets the epoch of its successor, if that is a
    client of an older version and has ended a transaction."""
    if current.state not in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return False
    if current.transaction_version < BUMPING_VERSION:
        return False
    producer_id, epoch = producer
    if current.producer_id == producer_id:
        return current.producer_epoch == epoch + 1
    return (
        current.previous_producer_id == producer_id
        and epoch == EPOCH_MAX - 1
        and current.producer_epoch == 0
    )


def _is_unused(transaction: Transaction, since_ms: int) -> bool:
    return transaction.state.is_idle and transaction.last_update_timestamp_ms <= since_ms


def _check_not_prepared(current: Transaction) -> None:
    if current.state.is_prepared:
        raise KafkaError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"the last transaction of {current.transactional_id!r} is being completed",
        )


def _check_producer(current: Transaction, producer: ProducerIdAndEpoch) -> None:
    if current.producer_id != producer.producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{current.transactional_id!r} is not producer {producer.producer_id}",
        )
    if current.producer_epoch != producer.producer_epoch:
        raise _fenced(current, producer)


def _check_outcome(current: Transaction, is_commit: bool) -> None:
    complete = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    if current.state is not complete:
        raise _wrong_state(current, is_commit)


def _wrong_state(current: Transaction, is_commit: bool) -> KafkaError:
    outcome = "commit" if is_commit else "abort"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"{current.transactional_id!r} is {current.state.text}: there is nothing to {outcome}",
    )


def _fenced(current: Transaction, producer: ProducerIdAndEpoch) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"{current.transactional_id!r} is at epoch {current.producer_epoch} of producer "
        f"{current.producer_id}, not at {producer.producer_epoch} of {producer.producer_id}",
    )
