"""`partition.metadata`: which topic a partition's folder belongs to, by its id."""

from __future__ import annotations

import re

from ottla.kernel.disk import Disk
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, topic_id_from_text, topic_id_text
from ottla.storage.errors import CorruptFile
from ottla.storage.file_names import PARTITION_METADATA

VERSION = 0
_FORMAT = re.compile(r"version:\s+(\d+)\r?\ntopic_id:\s+(\S+)\s*", re.ASCII)


def format_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: {VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()


def write_partition_metadata(disk: Disk, partition_path: str, topic_id: TopicId) -> None:
    """In place, where there is none or a torn one. It is synced off the loop, before any record of
    the log is (`TopicIdSync`)."""
    file = disk.open(f"{partition_path}/{PARTITION_METADATA}", create=True)
    file.write_at(0, (format_partition_metadata(topic_id),))
    file.close()


def is_torn(content: bytes) -> bool:
    """Whether the power went before the first write of it was synced."""
    return len(content.rstrip(b"\0")) < len(format_partition_metadata(NO_TOPIC_ID))


def parse_partition_metadata(content: bytes) -> TopicId:
    match = _FORMAT.fullmatch(content.decode("utf-8", "replace"))
    if not match:
        raise CorruptFile(f"partition.metadata is malformed: {content[:80]!r}")
    try:
        topic_id = topic_id_from_text(match[2])
    except ValueError as error:
        raise CorruptFile(f"partition.metadata: {error}") from error
    if topic_id == NO_TOPIC_ID:
        raise CorruptFile("partition.metadata holds no topic id")
    return topic_id
