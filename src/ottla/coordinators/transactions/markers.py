"""What crosses from the transaction coordinator to the leaders of a transaction's partitions."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.kernel.ids import TopicPartition


class TransactionMarkers(NamedTuple):
    """One outcome, to be written to each partition of the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """With transactions version 2 the raised one: it fences what comes late."""
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class MarkerWriter(Protocol):
    async def write(self, markers: TransactionMarkers) -> None:
        """Returns when every partition that still exists has its marker: tries again what fails
        for now. A marker that is there already is no error. Raises KafkaError where trying again
        is of no use: another coordinator has taken over (TRANSACTION_COORDINATOR_FENCED), or the
        producer is a later one there (INVALID_PRODUCER_EPOCH)."""
        ...
