"""What can be wrong with a batch."""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.errors import ErrorCode, KafkaError


class CorruptRecord(KafkaError):
    """Bytes that are not what they claim to be."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class RecordError(NamedTuple):
    """One record that made its batch be refused (KIP-467)."""

    batch_index: int
    message: str


class RecordsRejected(KafkaError):
    """The batch is sound, but some of its records are not allowed here. A produce response
    carries `record_errors`, so that the client can drop those and send the rest again."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class NotOneBatch(KafkaError):
    """What was produced is not one record batch of a kind that the request's version knows. A
    broker sees that before it looks for the partition's log."""
