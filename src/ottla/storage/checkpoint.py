"""Kafka's text checkpoints: a version, a count, and a line for each entry.

In a log dir: `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and
`replication-offset-checkpoint` with lines `topic partition offset`; in a partition's folder:
`leader-epoch-checkpoint` with lines `epoch start_offset`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.kernel.disk import Disk
from ottla.kernel.ids import TopicPartition
from ottla.storage.errors import CorruptFile

VERSION = 0


def format_checkpoint(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in [str(VERSION), str(len(entries)), *entries]).encode()


def parse_checkpoint(content: bytes, *, column_count: int) -> list[list[str]]:
    """Rows of text. An empty file, which Kafka makes before it writes one, has none."""
    lines = content.decode("utf-8", "replace").splitlines()
    if len(lines) < 2:
        return []
    version, count, *entries = lines
    if version.strip() != str(VERSION):
        raise CorruptFile(f"a checkpoint of version {version!r}, expected {VERSION}")
    rows = [line.split() for line in entries]
    for line, row in zip(entries, rows, strict=True):
        if len(row) != column_count or not _are_numbers(row[-2:]):
            raise CorruptFile(f"a malformed line in a checkpoint: {line!r}")
    if count.strip() != str(len(rows)):
        raise CorruptFile(f"a checkpoint of {count} entries holds {len(rows)}")
    return rows


def format_offset(topic_partition: TopicPartition, offset: int) -> str:
    """A line of a checkpoint of offsets."""
    return f"{topic_partition.topic} {topic_partition.partition} {offset}"


def parse_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Raises `CorruptFile`."""
    offsets = {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partition, offset in parse_checkpoint(content, column_count=3)
    }
    for topic_partition, offset in offsets.items():
        if min(topic_partition.partition, offset) < 0:
            raise CorruptFile(f"a checkpoint of offset {offset} for {topic_partition}")
    return offsets


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Empty when there is no such file."""
    if not disk.exists(path):
        return {}
    return parse_offsets(disk.read_file(path))


def _are_numbers(texts: list[str]) -> bool:
    return all(text.isascii() and text.removeprefix("-").isdigit() for text in texts)
