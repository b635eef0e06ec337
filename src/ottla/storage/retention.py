"""Which segments of a log are to go: too old, too much, or below its start."""

from __future__ import annotations

from ottla.storage.log import Log


def apply_retention(log: Log, *, now_ms: int, high_watermark: int) -> int:
    """Deletes what the topic's settings no longer keep, and returns how many segments that was.
    As in Kafka: whole segments from the oldest on, none that reaches beyond the high watermark.
    The active segment goes too when all of its records are too old: it is rolled first."""
    count = _count_below_start(log, high_watermark)
    if "delete" in log.config.cleanup_policy:
        count = max(
            count,
            _count_too_much(log, high_watermark),
            _count_too_old(log, now_ms, high_watermark),
        )
    if count == 0:
        return 0
    if count == len(log.segments):
        log.roll()
    log.delete_segments(count)
    return count


def _end_offsets(log: Log) -> list[int]:
    """Of each segment. That of the active one lies beyond what is committed while an append is
    pending: its bytes are in that segment, and it cannot go."""
    return [*(segment.base_offset for segment in log.segments[1:]), log.next_offset]


def _count_below_start(log: Log, high_watermark: int) -> int:
    """Only closed segments: that all of the active one was deleted with DeleteRecords is no
    reason to roll it."""
    limit = min(log.log_start_offset, high_watermark)
    return sum(end_offset <= limit for end_offset in _end_offsets(log)[:-1])


def _count_too_much(log: Log, high_watermark: int) -> int:
    if log.config.retention_bytes < 0:
        return 0
    excess_bytes = log.size_bytes - log.config.retention_bytes
    count = 0
    for segment, end_offset in zip(log.segments, _end_offsets(log), strict=True):
        excess_bytes -= segment.size_bytes
        if excess_bytes < 0 or end_offset > high_watermark or not segment.size_bytes:
            break
        count += 1
    return count


def _count_too_old(log: Log, now_ms: int, high_watermark: int) -> int:
    if log.config.retention_ms < 0:
        return 0
    oldest_ms = now_ms - log.config.retention_ms
    count = 0
    segments = log.segments
    for segment, end_offset in zip(segments, _end_offsets(log), strict=True):
        is_last_and_empty = segment is segments[-1] and segment.size_bytes == 0
        if is_last_and_empty or end_offset > high_watermark:
            break
        if segment.largest_timestamp_ms() >= oldest_ms:
            break
        count += 1
    return count
