"""What batches that wait to be appended may hold in memory."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError

APPEND_MEMORY_BYTES = 256 * 1024 * 1024


class AppendMemory:
    """One for all partitions of a broker. A batch that waits outlives its request: its client may
    be gone, and come again with another. So it counts by itself, until it is in the log."""

    def __init__(self, byte_count_max: int = APPEND_MEMORY_BYTES) -> None:
        self._free = byte_count_max

    def take(self, byte_count: int) -> None:
        """Raises KafkaError with a code that clients try again."""
        if byte_count > self._free:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "too many batches wait for the disk, or to be compressed; try again later",
            )
        self._free -= byte_count

    def give_back(self, byte_count: int) -> None:
        self._free += byte_count
