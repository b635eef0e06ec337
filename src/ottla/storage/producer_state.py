"""What a partition knows of the producers that write to it: epochs, sequences, transactions.

Idempotence rests on this (KIP-98): a producer numbers the records that it sends to a partition,
and the log takes each number once, in order. The rules are those of Kafka 4: the last five
batches of a producer can be told from new ones and are answered as they were the first time;
anything else out of order is refused; a producer that the partition does not know, because it is
new or because its records were deleted, may begin with any number (KIP-360).

Transactions rest on it too. A transactional batch opens a transaction in the partition unless one
is open; the coordinator's marker ends it. Both are questioned: the batch must be of a transaction
that the coordinator knows (`verification`), and the marker must not be an old one that would end
the next transaction. Since version 2 of transactions (KIP-890) each end bumps the epoch, and the
marker bears the new one: it must be above the producer's (KIP-1228).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import (
    CONTROL_FLAG,
    NO_SEQUENCE,
    SEQUENCE_MODULUS,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from ottla.records.control import EndTxnMarker, parse_end_txn_marker
from ottla.records.errors import CorruptRecord
from ottla.storage.open_transactions import OpenTransactions
from ottla.storage.producer_entry import BatchMetadata, ProducerEntry
from ottla.storage.verification import Verification, VerificationGuard

logger = logging.getLogger(__name__)

VERIFICATION_COUNT_MAX = 1000
"""Questions to the coordinator that a partition remembers. Anybody can make it ask; a producer
whose question is forgotten tries again."""

# Of a NamedTuple its own constructor takes twice as long; every append of a producer makes one.
_new_tuple = tuple.__new__

PRODUCER_EPOCH_MAX = 0x7FFF
EPOCH_BUMP_VERSION = 2
"""The transaction version since which a marker bears an epoch of its own."""


class ProducerStateConfig:
    """Of all logs of a broker, which share one: a change holds for all at once."""

    __slots__ = ("expiration_ms", "is_verification_enabled")

    def __init__(
        self, *, expiration_ms: int = 86_400_000, is_verification_enabled: bool = True
    ) -> None:
        self.expiration_ms = expiration_ms
        self.is_verification_enabled = is_verification_enabled

    def set(self, config: BrokerConfig) -> None:
        self.expiration_ms = config.producer_id_expiration_ms
        self.is_verification_enabled = config.transaction_partition_verification_enable


class EndedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""
    is_commit: bool
    last_stable_offset: int
    """Once the marker is replicated."""


class ProducerState:
    """Owned by one log, and always at its end. A crash loses it; it is rebuilt from the newest
    snapshot and the batches after that."""

    def __init__(self, topic_partition: TopicPartition, config: ProducerStateConfig) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.producers: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self._verifications: dict[int, Verification] = {}

    # Before an append

    def check(
        self, header: BatchHeader, offset: int, guard: VerificationGuard | None = None
    ) -> BatchMetadata | None:
        """Before a leader appends a batch with a producer id that is no marker. Returns the batch
        that it repeats, None when it is new; raises when it must not be appended. A batch without
        sequence is one of a coordinator of this broker."""
        entry = self.producers.get(header.producer_id)
        is_transactional = header.attributes & TRANSACTIONAL_FLAG != 0
        if entry is None:
            self._check_unknown(header, offset, guard, is_transactional)
            return None
        is_open = entry.current_txn_first_offset is not None
        if header.producer_epoch == entry.producer_epoch and header.base_sequence >= 0:
            if header.base_sequence != entry.next_sequence:
                duplicate = entry.find_duplicate(header)
                if duplicate is not None:
                    return duplicate
            elif is_transactional == is_open and not self._verifications:
                return None
        self._check_epoch(header.producer_id, header.producer_epoch, entry, offset)
        if is_transactional and (not is_open or header.producer_epoch != entry.producer_epoch):
            self._check_guard(header.producer_id, guard)
        if header.base_sequence >= 0:
            self._check_verified_sequence(header, offset, entry)
            _check_sequence(header, offset, entry, self.topic_partition)
        if is_open and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {header.producer_id} has a transaction open in {self.topic_partition}, "
                "and this batch is not transactional",
            )
        return None

    def _check_unknown(
        self,
        header: BatchHeader,
        offset: int,
        guard: VerificationGuard | None,
        is_transactional: bool,
    ) -> None:
        if is_transactional:
            self._check_guard(header.producer_id, guard)
        if self._verifications and header.base_sequence >= 0:
            self._check_verified_sequence(header, offset, None)

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        offset: int,
    ) -> None:
        """Before a leader appends a marker."""
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        self._check_epoch(producer_id, producer_epoch, entry, offset)
        if (
            transaction_version >= EPOCH_BUMP_VERSION
            and producer_epoch == entry.producer_epoch
            and entry.current_txn_first_offset is not None
            and producer_epoch != PRODUCER_EPOCH_MAX
        ):
            # Of the transaction before, sent once more: its answer was lost. Without an open
            # transaction it does no harm. The last epoch has no next one.
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {producer_epoch} of a marker for producer {producer_id} in "
                f"{self.topic_partition} is not above that of the open transaction",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {coordinator_epoch} of a marker for producer {producer_id} in "
                f"{self.topic_partition} is below the last one, {entry.coordinator_epoch}",
            )

    def _check_epoch(
        self, producer_id: int, producer_epoch: int, entry: ProducerEntry, offset: int
    ) -> None:
        if producer_epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {producer_epoch} of producer {producer_id} at offset {offset} in "
                f"{self.topic_partition} is smaller than the last seen epoch "
                f"{entry.producer_epoch}",
            )

    def _check_guard(self, producer_id: int, guard: VerificationGuard | None) -> None:
        verification = self._verifications.get(producer_id)
        if self.config.is_verification_enabled and (
            verification is None or verification.guard is not guard
        ):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"A batch of producer {producer_id} for {self.topic_partition} is not of an "
                "ongoing transaction",
            )

    def _check_verified_sequence(
        self, header: BatchHeader, offset: int, entry: ProducerEntry | None
    ) -> None:
        verification = self._verifications.get(header.producer_id)
        if verification is None:
            return
        sequence = header.base_sequence
        is_empty = entry is None or not entry.batches
        if verification.supports_epoch_bump and is_empty and sequence != 0:
            # Each transaction begins with 0: a batch before this one is still on its way.
            problem = f"sequence {sequence} as the first of epoch {header.producer_epoch}"
        elif sequence > verification.lowest_sequence:
            problem = f"sequence {sequence}, {verification.lowest_sequence} is to come before it"
        else:
            return
        raise _out_of_order(header, offset, problem, self.topic_partition)

    # Verification

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset is not None
            and entry.producer_epoch == producer_epoch
        )

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        supports_epoch_bump: bool,
        now_ms: int,
        offset: int,
    ) -> VerificationGuard | None:
        """None where the transaction is open already: there is nothing to ask."""
        entry = self.producers.get(producer_id)
        if entry is not None:
            self._check_epoch(producer_id, producer_epoch, entry, offset)
            if self.has_open_transaction(producer_id, producer_epoch):
                return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            if len(self._verifications) >= VERIFICATION_COUNT_MAX:
                del self._verifications[next(iter(self._verifications))]
            verification = self._verifications[producer_id] = Verification(
                producer_epoch,
                base_sequence,
                supports_epoch_bump=supports_epoch_bump,
                began_ms=now_ms,
            )
        else:
            verification.note(producer_epoch, base_sequence)
        return verification.guard

    # After an append

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """After a data batch was written at `base_offset`, or found there while loading."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        delta = header.last_offset_delta
        sequence = header.base_sequence
        last_sequence = (sequence + delta) % SEQUENCE_MODULUS if sequence >= 0 else NO_SEQUENCE
        fields = (last_sequence, base_offset + delta, delta, header.max_timestamp)
        entry.add(header.producer_epoch, _new_tuple(BatchMetadata, fields))
        if header.attributes & TRANSACTIONAL_FLAG:
            if entry.current_txn_first_offset is None:
                entry.current_txn_first_offset = base_offset
                self.transactions.begin(base_offset, producer_id)
            if self._verifications:
                self._verifications.pop(producer_id, None)

    def end_transaction(
        self, header: BatchHeader, marker: EndTxnMarker, offset: int
    ) -> EndedTransaction | None:
        """After a marker was written at the offset, or found there. None where it ended nothing:
        markers come more than once, and to partitions that were never written to."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        first_offset = entry.current_txn_first_offset
        epoch = header.producer_epoch
        entry.end_transaction(epoch, marker.coordinator_epoch, header.max_timestamp)
        verification = self._verifications.get(producer_id)
        if verification is not None and not (
            verification.supports_epoch_bump and verification.producer_epoch == epoch
        ):
            # Else it is of the next transaction, which has the epoch of the marker.
            del self._verifications[producer_id]
        if first_offset is None:
            return None
        last_stable_offset = self.transactions.end(first_offset, offset)
        return EndedTransaction(
            producer_id, first_offset, offset, marker.is_commit, last_stable_offset
        )

    def replay(self, header: BatchHeader, batch: memoryview) -> EndedTransaction | None:
        """Takes in a batch of any kind that the log already holds, or that its leader has
        accepted. It is not questioned: the log is what it is."""
        if header.producer_id < 0:
            return None
        if not header.attributes & CONTROL_FLAG:
            self.update(header, header.base_offset)
            return None
        try:
            marker = parse_end_txn_marker(batch)
        except CorruptRecord as error:
            logger.warning("a control batch of %s ends nothing: %s", self.topic_partition, error)
            return None
        if marker is None:
            return None
        return self.end_transaction(header, marker, header.base_offset)

    # Beginning anew, and forgetting

    def reset(self, entries: list[ProducerEntry], now_ms: int) -> None:
        """To what a snapshot knows."""
        self._verifications.clear()
        self.producers.clear()
        self.producers.update(
            (entry.producer_id, entry) for entry in entries if not self.is_expired(entry, now_ms)
        )
        self.transactions.reset(
            {
                entry.current_txn_first_offset: entry.producer_id
                for entry in self.producers.values()
                if entry.current_txn_first_offset is not None
            }
        )

    def expire(self, now_ms: int) -> None:
        expired = [
            entry.producer_id for entry in self.producers.values() if self.is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.began_ms >= self.config.expiration_ms:
                del self._verifications[producer_id]

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.current_txn_first_offset is None
            and now_ms - entry.last_timestamp >= self.config.expiration_ms
        )


def _check_sequence(
    header: BatchHeader, offset: int, entry: ProducerEntry, topic_partition: TopicPartition
) -> None:
    sequence = header.base_sequence
    if header.producer_epoch == entry.producer_epoch:
        # An entry that has no batches has seen only a transaction marker of this epoch: the next
        # sequence is 0 then, as Kafka has it (-1 + 1).
        if sequence != entry.next_sequence:
            problem = f"sequence {sequence}, expected {entry.next_sequence}"
            raise _out_of_order(header, offset, problem, topic_partition)
    elif sequence != 0:
        problem = (
            f"sequence {sequence} in the new epoch {header.producer_epoch} "
            f"after epoch {entry.producer_epoch}, expected 0"
        )
        raise _out_of_order(header, offset, problem, topic_partition)


def _out_of_order(
    header: BatchHeader, offset: int, problem: str, topic_partition: TopicPartition
) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Out of order sequence number for producer {header.producer_id} at offset {offset} "
        f"in {topic_partition}: {problem}",
    )
