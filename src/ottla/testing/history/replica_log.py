"""The log of one replica as it lies on its disk, for a checker to read when all is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.kernel.disk import Disk
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import BatchHeader
from ottla.records.control import EndTxnMarker, parse_end_txn_marker
from ottla.records.record import iter_records
from ottla.storage import file_names
from ottla.storage.batch_scan import ScannedBatch, scan_valid_batches
from ottla.storage.checkpoint import read_offsets
from ottla.testing.history.events import Outcome


class LoggedBatch(NamedTuple):
    header: BatchHeader
    values: tuple[tuple[int, str], ...]
    """Offsets and values. None of a marker."""
    marker: Outcome | None = None

    @property
    def is_control(self) -> bool:
        return self.header.is_control


class ReplicaLog(NamedTuple):
    broker_id: int
    partition: TopicPartition
    start_offset: int
    high_watermark: int
    """The one that the broker last wrote down: what is below is committed, and maybe more."""
    batches: tuple[LoggedBatch, ...]

    @property
    def end_offset(self) -> int:
        return self.batches[-1].header.next_offset if self.batches else self.start_offset


def read_replica_logs(disk: Disk, broker_id: int, log_dir: str, topic: str) -> list[ReplicaLog]:
    """Those of the topic, of a broker that does not run. A torn end is left out, as it would be
    when the broker starts."""
    starts = read_offsets(disk, f"{log_dir}/{file_names.LOG_START_OFFSET_CHECKPOINT}")
    marks = read_offsets(disk, f"{log_dir}/{file_names.REPLICATION_OFFSET_CHECKPOINT}")
    logs = []
    for name in disk.list_folder(log_dir):
        found = file_names.parse_folder_name(name)
        if found is None or found.kind is not file_names.FolderKind.CURRENT:
            continue
        partition = found.topic_partition
        if partition.topic == topic:
            # A checkpoint has it only where it is not where the first segment begins.
            folder = f"{log_dir}/{name}"
            start_offset = max(starts.get(partition, 0), _first_segment(disk, folder))
            batches = _read_batches(disk, folder, start_offset)
            logs.append(
                ReplicaLog(
                    broker_id, partition, start_offset, marks.get(partition, 0), tuple(batches)
                )
            )
    return logs


def _segments(disk: Disk, folder: str) -> list[tuple[int, str]]:
    """Where they begin, and what they are called."""
    split = {name: file_names.split_file_name(name) for name in disk.list_folder(folder)}
    return sorted(
        (found[0], name)
        for name, found in split.items()
        if found is not None and found[1] == file_names.LOG_SUFFIX
    )


def _first_segment(disk: Disk, folder: str) -> int:
    return min((base_offset for base_offset, _ in _segments(disk, folder)), default=0)


def _read_batches(disk: Disk, folder: str, start_offset: int) -> Iterator[LoggedBatch]:
    for base_offset, name in _segments(disk, folder):
        path = f"{folder}/{name}"
        file = disk.open(path)
        try:
            for batch in scan_valid_batches(file, disk.size(path), base_offset):
                if batch.header.last_offset >= start_offset:
                    yield _logged(batch)
        finally:
            file.close()


def _logged(batch: ScannedBatch) -> LoggedBatch:
    header = batch.header
    if header.is_control:
        marker = parse_end_txn_marker(batch.content)
        assert marker is not None, f"the marker at {header.base_offset} is gone"
        return LoggedBatch(header, (), _outcome(marker))
    values = ((record.offset, _text(record.value)) for record in iter_records(batch.content))
    return LoggedBatch(header, tuple(values))


def _outcome(marker: EndTxnMarker) -> Outcome:
    return Outcome.COMMITTED if marker.is_commit else Outcome.ABORTED


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "backslashreplace")
