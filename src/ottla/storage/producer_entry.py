"""What a partition knows of one producer."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ottla.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MODULUS,
    BatchHeader,
)

RETAINED_BATCH_COUNT = 5
"""Kafka's, and the reason why a client may have five requests in flight and no more."""

NO_COORDINATOR_EPOCH = -1


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCE_MODULUS

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer id. Lives until it has been silent for `producer.id.expiration.ms`."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "next_sequence",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=RETAINED_BATCH_COUNT)
        self.next_sequence = 0
        self.last_timestamp = NO_TIMESTAMP
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.current_txn_first_offset: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def add(self, epoch: int, batch: BatchMetadata) -> None:
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()
        self.batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) % SEQUENCE_MODULUS
        self.last_timestamp = batch.timestamp

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None

    def end_transaction(self, epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """A marker of a later epoch ends that of the producer too (KIP-890): it begins anew with
        sequence 0, and what it sent before is no duplicate of what it sends now."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()
            self.next_sequence = 0
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp
