"""What the coordinator knows of one transactional id, and the steps it can take.

A producer is a (producer id, epoch); the higher epoch fences the lower ones. With transactions
version 2 (KIP-890) each end raises the epoch: the markers carry the new one, so that whatever the
producer sent under the old one and arrives late belongs to no later transaction. Before that the
epoch changed only when a producer started or was fenced.

Epochs are 16 bits. The greatest one is never given to a producer, so that it can still be fenced;
when a producer has the last but one, its next step gives it another producer id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.coordinators.record import CoordinatorRecord, EncodedRecord
from ottla.coordinators.transactions.records import (
    TransactionLogKey,
    TransactionLogValue,
    encode_key,
    encode_value,
)
from ottla.coordinators.transactions.state import ALLOWED_PREVIOUS, TransactionState
from ottla.kernel.ids import ProducerId, ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

EPOCH_MAX = 2**15 - 1

BUMPING_VERSION = 2
"""From this transactions version on every end raises the epoch."""

NO_TIMEOUT_MS = 2**31 - 1
"""Of a producer that takes part in two-phase commit (KIP-939): whoever coordinates it decides."""

NO_TIMESTAMP = -1
_NONE = ProducerId(NO_PRODUCER_ID)


class Transaction(NamedTuple):
    """Owned by the shard of its transactional id, until that expires. Each step makes a new one,
    which becomes the shard's when its record is in the log."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_timestamp_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    previous_producer_id: ProducerId = _NONE
    """Before the last step: by it a retry is known whose first try changed the producer id."""
    next_producer_id: ProducerId = _NONE
    """What the producer goes on with once the transaction is complete, its epochs used up."""
    transaction_version: int = 0
    """Of the client, at the last step that tells it."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """Before the last raise, if the same producer asked for that: by it a retry is known. Not in
    the log; a restart forgets it, and the retry is fenced. As in Kafka."""

    # -- what it is -------------------------------------------------------------------------

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != NO_TIMEOUT_MS
            and self.start_timestamp_ms + self.timeout_ms < now_ms
        )

    # -- its steps --------------------------------------------------------------------------

    def with_epoch(
        self, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """A producer starts, or goes on after an error (KIP-360)."""
        return self._begun(
            timeout_ms,
            now_ms,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
        )

    def with_producer_id(
        self, producer_id: ProducerId, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """As before, but there are no epochs left."""
        return self._begun(
            timeout_ms,
            now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=last_producer_epoch,
        )

    def _begun(self, timeout_ms: int, now_ms: int, **changes: int) -> Transaction:
        return self._step(
            TransactionState.EMPTY,
            now_ms,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
            **changes,
        )

    def with_partitions(
        self, partitions: Iterable[TopicPartition], transaction_version: int, now_ms: int
    ) -> Transaction:
        return self._step(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions.union(partitions),
            start_timestamp_ms=now_ms if self.state.is_idle else self.start_timestamp_ms,
            transaction_version=transaction_version,
        )

    def prepared(
        self,
        is_commit: bool,
        transaction_version: int,
        next_producer_id: ProducerId,
        now_ms: int,
    ) -> Transaction:
        """Decided. `next_producer_id` is there if the epochs are used up."""
        changes: dict[str, object] = {}
        if transaction_version >= BUMPING_VERSION:
            # At the greatest already? Then something went wrong before, which an abort may end.
            changes["producer_epoch"] = min(self.producer_epoch + 1, EPOCH_MAX)
            changes["last_producer_epoch"] = self.producer_epoch
        return self._step(
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            now_ms,
            # An abort of nothing begins when it ends.
            start_timestamp_ms=now_ms if self.state.is_idle else self.start_timestamp_ms,
            next_producer_id=next_producer_id,
            transaction_version=transaction_version,
            **changes,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        changes: dict[str, object] = {}
        if self.goes_on_as != self.producer:
            # What the client saw last stays: it never hears of the epoch of the markers.
            changes["producer_id"], changes["producer_epoch"] = self.goes_on_as
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        return self._step(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            partitions=frozenset(),
            next_producer_id=_NONE,
            **changes,
        )

    @property
    def goes_on_as(self) -> ProducerIdAndEpoch:
        """What the producer is when the transaction is complete."""
        if self.next_producer_id != _NONE:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return self.producer

    def _step(self, state: TransactionState, now_ms: int, **changes: object) -> Transaction:
        assert self.state in ALLOWED_PREVIOUS[state], (
            f"{self.transactional_id}: {state.text} cannot follow {self.state.text}"
        )
        return self._replace(
            state=state,
            last_update_timestamp_ms=now_ms,
            previous_producer_id=self.producer_id,
            **changes,  # type: ignore[arg-type]
        )

    # -- in the log -------------------------------------------------------------------------

    def to_record(self) -> EncodedRecord:
        is_empty = self.state is TransactionState.EMPTY
        value = encode_value(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            timeout_ms=self.timeout_ms,
            status=self.state,
            partitions=None if is_empty else self.partitions,
            last_update_timestamp_ms=self.last_update_timestamp_ms,
            start_timestamp_ms=self.start_timestamp_ms,
            client_transaction_version=self.transaction_version,
        )
        return EncodedRecord(encode_key(self.transactional_id), value)

    @classmethod
    def from_record(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        """Raises ValueError for a state that is not to be found in a log."""
        return cls(
            transactional_id=transactional_id,
            producer_id=ProducerId(value.producer_id),
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=TransactionState(value.transaction_status),
            partitions=frozenset(
                TopicPartition(listed.topic, number)
                for listed in value.transaction_partitions or ()
                for number in listed.partition_ids
            ),
            start_timestamp_ms=value.transaction_start_timestamp_ms,
            last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
            previous_producer_id=ProducerId(value.previous_producer_id),
            next_producer_id=ProducerId(value.next_producer_id),
            transaction_version=value.client_transaction_version,
        )


def new_transaction(
    transactional_id: str, producer_id: ProducerId, timeout_ms: int, now_ms: int
) -> Transaction:
    """Before its first step, which gives it epoch 0."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_timestamp_ms=now_ms,
    )


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def is_exhausted(producer_epoch: int) -> bool:
    return producer_epoch >= EPOCH_MAX - 1
