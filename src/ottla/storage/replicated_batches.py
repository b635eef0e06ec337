"""What a follower got from its leader, before it is appended."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import BatchHeader, is_crc_valid, iter_headers
from ottla.records.errors import CorruptRecord


def iter_replicated(
    buffer: memoryview, next_offset: int, topic_partition: TopicPartition
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch, which is intact and comes after the one before. A last
    batch that is cut off, as Fetch responses have them, is left out."""
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
