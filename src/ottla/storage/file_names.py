"""How Kafka names the files of a segment and the folder of a partition."""

from __future__ import annotations

import random
import re
from enum import Enum
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"

DELETED_SUFFIX = ".deleted"
"""Renamed to this first, removed later: a fetch may still be sending from it."""
CLEANED_SUFFIX = ".cleaned"
"""A compaction that has not finished: worthless."""
SWAP_SUFFIX = ".swap"
"""A compaction that has finished, and replaces the segments that it covers."""
TEMPORARY_SUFFIX = ".tmp"

INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RUN_MARK = ".ottla_run"
LOCK = ".lock"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
"""Of a log dir: an offset for each of its logs."""
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"

METADATA_TOPIC = "__cluster_metadata"

_FILE_NAME_BYTES_MAX = 255
_OFFSET_NAME = re.compile(r"(\d{20})(\..+)")


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def split_file_name(name: str) -> tuple[int, str] | None:
    """Offset and everything from the first dot on; None for a file that is not named so."""
    match = _OFFSET_NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


class FolderKind(Enum):
    CURRENT = ""
    FUTURE = "-future"
    """A replica on its way from one log dir to another."""
    DELETE = "-delete"
    STRAY = "-stray"


class FolderName(NamedTuple):
    topic_partition: TopicPartition
    kind: FolderKind


_SUFFIXED_FOLDER = re.compile(r"(\S+)\.[^.\s]+(-delete|-future|-stray)")


def parse_folder_name(name: str) -> FolderName | None:
    """None when it is not the folder of a partition."""
    kind = FolderKind.CURRENT
    match = _SUFFIXED_FOLDER.fullmatch(name)
    if match:
        name, kind = match[1], FolderKind(match[2])
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return FolderName(TopicPartition(topic, int(partition)), kind)


def suffixed_folder_name(
    topic_partition: TopicPartition, kind: FolderKind, rng: random.Random
) -> str:
    """`topic-partition.uniqueid-delete`. A topic name may be so long that its end is cut off, as
    Kafka does (KAFKA-7200); nothing reads the name back except to delete the folder."""
    tail = f"-{topic_partition.partition}.{rng.randbytes(16).hex()}{kind.value}"
    return topic_partition.topic[: _FILE_NAME_BYTES_MAX - len(tail)] + tail
