"""What a partition knows of the producers that write to it: epochs, sequences, the last batches.

Idempotence rests on this (KIP-98): a producer numbers the records that it sends to a partition,
and the log takes each number once, in order. The rules are those of Kafka 4: the last five
batches of a producer can be told from new ones and are answered as they were the first time;
anything else out of order is refused; a producer that the partition does not know, because it is
new or because its records were deleted, may begin with any number (KIP-360).
"""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import (
    CONTROL_FLAG,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MODULUS,
    TRANSACTIONAL_FLAG,
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
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()
            self.next_sequence = 0
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp


class ProducerState:
    """Owned by one log, and always at its end. A crash loses it; it is rebuilt from the newest
    snapshot and the batches after that."""

    def __init__(self, topic_partition: TopicPartition, *, expiration_ms: int) -> None:
        self.topic_partition = topic_partition
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}

    def check(self, header: BatchHeader, offset: int) -> BatchMetadata | None:
        """Before a leader appends a batch with a producer id. Returns the batch that it repeats,
        None when it is new; raises when it must not be appended."""
        entry = self.producers.get(header.producer_id)
        if entry is None or header.attributes & CONTROL_FLAG:
            return None
        if header.producer_epoch == entry.producer_epoch:
            # An entry that has no batches has seen only a transaction marker of this epoch:
            # the next sequence is 0 then, as Kafka has it (-1 + 1).
            if header.base_sequence == entry.next_sequence:
                return None
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
            raise self._out_of_order(
                header, offset, f"sequence {header.base_sequence}, expected {entry.next_sequence}"
            )
        if header.producer_epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {header.producer_epoch} of producer {header.producer_id} at offset "
                f"{offset} in {self.topic_partition} is smaller than the last seen epoch "
                f"{entry.producer_epoch}",
            )
        if header.base_sequence != 0:
            raise self._out_of_order(
                header,
                offset,
                f"sequence {header.base_sequence} in the new epoch {header.producer_epoch} "
                f"after epoch {entry.producer_epoch}, expected 0",
            )
        return None

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """After a data batch was written at `base_offset`, or found there while loading."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        delta = header.last_offset_delta
        entry.add(
            header.producer_epoch,
            BatchMetadata(
                (header.base_sequence + delta) % SEQUENCE_MODULUS,
                base_offset + delta,
                delta,
                header.max_timestamp,
            ),
        )
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_txn_first_offset is None:
            entry.current_txn_first_offset = base_offset

    def replay(self, header: BatchHeader, batch: memoryview) -> None:
        """Takes in a batch of any kind that the log already holds, or that its leader has
        accepted. It is not questioned: the log is what it is."""
        if header.producer_id < 0:
            return
        if not header.attributes & CONTROL_FLAG:
            self.update(header, header.base_offset)
            return
        coordinator_epoch = marker_coordinator_epoch(batch)
        if coordinator_epoch is None:
            return
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        entry.end_transaction(header.producer_epoch, coordinator_epoch, header.max_timestamp)

    def expire(self, now_ms: int) -> None:
        expired = [
            entry.producer_id for entry in self.producers.values() if self.is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self.producers[producer_id]

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.current_txn_first_offset is None
            and now_ms - entry.last_timestamp >= self.expiration_ms
        )

    def _out_of_order(self, header: BatchHeader, offset: int, problem: str) -> KafkaError:
        return KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id} at offset {offset} "
            f"in {self.topic_partition}: {problem}",
        )


_MARKER_VALUE = struct.Struct(">hi")


def marker_coordinator_epoch(batch: bytes | memoryview) -> int | None:
    """The coordinator's epoch in a whole control batch; None when it holds no record (a cleaned
    transaction leaves such). A control batch is never compressed; its key and value are short, so
    that every varint before them is one byte but the record's own offset and time, which are 0."""
    position = 61
    if len(batch) <= position:
        return None
    # length, attributes, timestamp delta, offset delta, key length, key (4 bytes), value length
    value_at = position + 5 + 4 + 1
    if len(batch) < value_at + _MARKER_VALUE.size:
        return None
    epoch: int = _MARKER_VALUE.unpack_from(batch, value_at)[1]
    return epoch
