"""When the active segment of a log is full, or old enough."""

from __future__ import annotations

from ottla.config.topic import TopicConfig
from ottla.storage.segment import RELATIVE_OFFSET_MAX, ActiveSegment

_NO_ROLL = 1 << 63


class RollLimits:
    """Owned by one log. What every append is compared with, computed anew when the segment, its
    indexes or the topic's settings change."""

    __slots__ = ("now_ms", "offset", "size_bytes", "timestamp")

    def __init__(self, active: ActiveSegment, config: TopicConfig) -> None:
        self.set(active, config)

    def set(self, active: ActiveSegment, config: TopicConfig) -> None:
        self.size_bytes = config.segment_bytes
        self.offset = active.base_offset + RELATIVE_OFFSET_MAX
        if active.is_index_full(config.segment_index_bytes):
            self.offset = -1
        wait_ms = config.segment_ms - active.roll_jitter_ms
        first_timestamp = active.first_timestamp
        self.timestamp = _NO_ROLL
        self.now_ms = _NO_ROLL
        if first_timestamp is not None and first_timestamp >= 0:
            self.timestamp = first_timestamp + wait_ms
        elif active.size_bytes:
            self.now_ms = active.created_ms + wait_ms

    def are_passed(
        self, size_bytes: int, max_timestamp: int, last_offset: int, now_ms: int
    ) -> bool:
        """By a segment of that size that ends with a batch of that timestamp and offset."""
        return (
            size_bytes > self.size_bytes
            or max_timestamp > self.timestamp
            or last_offset > self.offset
            or now_ms > self.now_ms
        )
