"""What a follower got from its leader, before it is appended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import BatchHeader, is_crc_valid, iter_headers
from ottla.records.errors import CorruptRecord


def iter_runs(
    buffer: memoryview,
    next_offset: int,
    topic_partition: TopicPartition,
    must_roll: Callable[[BatchHeader, int], bool],
) -> Iterator[tuple[memoryview, list[BatchHeader]]]:
    """Neighbouring batches that fit into one segment, which are to be appended before the next are
    asked for. `must_roll` tells whether so many bytes, of which this batch is the last, are too
    many for it. A last batch that is cut off, as Fetch responses have them, is left out."""
    start = end = 0
    headers: list[BatchHeader] = []
    for position, header in _iter_checked(buffer, next_offset, topic_partition):
        if headers and must_roll(header, end - start + header.size_bytes):
            yield buffer[start:end], headers
            start, headers = position, []
        headers.append(header)
        end = position + header.size_bytes
    if headers:
        yield buffer[start:end], headers


def _iter_checked(
    buffer: memoryview, next_offset: int, topic_partition: TopicPartition
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch, which is intact and comes after the one before."""
    for position, header in iter_headers(buffer, allow_partial=True):
        if not is_crc_valid(buffer[position : position + header.size_bytes]):
            raise CorruptRecord(f"a batch for {topic_partition} fails its CRC")
        if header.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Offset {header.base_offset} for {topic_partition} is not after its end "
                f"{next_offset}",
            )
        next_offset = header.next_offset
        yield position, header
