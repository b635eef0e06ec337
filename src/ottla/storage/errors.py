"""What can go wrong below a log."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError


class StorageFailure(KafkaError):
    """A log dir is offline, or this call has just taken it there. Clients look for another
    leader when they see the code."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class CorruptFile(Exception):
    """A file of ours that does not hold what its name promises."""


class BrokerStartRefused(Exception):
    """The data cannot be served by this broker as it is. The message is for the operator."""
