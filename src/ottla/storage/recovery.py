"""Mending what a crash left: torn tails, lost indexes, producer state."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.config.topic import TopicConfig
from ottla.kernel.disk import Disk
from ottla.records.batch import BatchHeader
from ottla.storage import offset_index, time_index, transaction_index
from ottla.storage.batch_scan import scan_valid_batches
from ottla.storage.errors import CorruptFile
from ottla.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    split_file_name,
)
from ottla.storage.folder import LogFolder
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment import ActiveSegment, Segment
from ottla.storage.snapshots import Snapshots
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)


class Recovered(NamedTuple):
    segment: ActiveSegment
    next_offset: int
    cut_bytes: int
    has_gaps: bool
    """Offsets are missing inside: it has been compacted."""
    is_changed: bool
    """Its files were not what they are now. That is not on the disk yet."""


def tidy_folder(disk: Disk, path: str) -> list[str]:
    """Removes what an interrupted deletion, replacement or compaction left in a partition's
    folder, finishes a compaction that was about to be swapped in, and returns the names that
    remain."""
    names = disk.list_folder(path)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    cleaned_min = min((_offset_of(name) for name in cleaned), default=None)
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    # A split of a segment writes all its parts before it renames the first (KAFKA-6264): a swap
    # file next to unfinished parts belongs to a split that did not happen.
    unfinished = [n for n in swaps if cleaned_min is not None and _offset_of(n) >= cleaned_min]
    for name in names:
        if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)) or name in cleaned + unfinished:
            disk.remove(f"{path}/{name}")
    swaps = [name for name in swaps if name not in unfinished]
    if swaps:
        _finish_swaps(disk, path, swaps)
    return disk.list_folder(path) if swaps or len(cleaned) else names


def _finish_swaps(disk: Disk, path: str, swaps: Sequence[str]) -> None:
    logs = [name for name in swaps if name.removesuffix(SWAP_SUFFIX).endswith(LOG_SUFFIX)]
    low = min((_offset_of(name) for name in logs), default=0)
    high = max(
        (_next_offset_of(disk, f"{path}/{name}", _offset_of(name)) for name in logs), default=0
    )
    for name in disk.list_folder(path):
        parts = split_file_name(name)
        if parts and parts[1] in SEGMENT_SUFFIXES and low <= parts[0] < high:
            disk.remove(f"{path}/{name}")
    for name in swaps:
        disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_folder(path)


def _next_offset_of(disk: Disk, path: str, base_offset: int) -> int:
    file = disk.open(path)
    next_offset = base_offset
    for batch in scan_valid_batches(file, file.size(), base_offset):
        next_offset = batch.header.next_offset
    return next_offset


def _offset_of(name: str) -> int:
    parts = split_file_name(name)
    return parts[0] if parts else 0


def recover_segment(
    segment: Segment,
    config: TopicConfig,
    leader_epochs: LeaderEpochs,
    producer_state: ProducerState | None,
    now_ms: int,
) -> Recovered:
    """Checks every batch, cuts off what follows the last good one, and builds the indexes anew.
    That of transactions needs the producer state at the segment's start, and is believed without.
    Waits for the disk."""
    disk = segment.folder.disk
    file = disk.open(segment.path(LOG_SUFFIX))
    size_bytes = file.size()
    recovered = ActiveSegment(
        segment.folder,
        segment.partition_path,
        segment.base_offset,
        file,
        created_ms=now_ms,
    )
    next_offset = segment.base_offset
    has_gaps = False
    for _, header, content in scan_valid_batches(file, size_bytes, segment.base_offset):
        has_gaps = has_gaps or _has_gap(header, next_offset)
        recovered.note_append(
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.size_bytes,
            config.index_interval_bytes,
        )
        if header.partition_leader_epoch > leader_epochs.latest_epoch:
            leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        if producer_state is not None:
            ended = producer_state.replay(header, content)
            if ended is not None and not ended.is_commit:
                recovered.note_aborted(ended)
        next_offset = header.next_offset
    cut_bytes = size_bytes - recovered.size_bytes
    if cut_bytes:
        logger.warning(
            "cut %d bytes off %s: no whole record batch at %d",
            cut_bytes,
            file.path,
            recovered.size_bytes,
        )
        file.truncate(recovered.size_bytes)
    if producer_state is None:
        recovered.transaction_index = read_transaction_index(segment)
    is_changed = _replace_indexes(recovered) or cut_bytes > 0
    recovered.unsynced_indexes.update(INDEX_SUFFIXES)
    return Recovered(recovered, next_offset, cut_bytes, has_gaps, is_changed)


def _replace_indexes(recovered: ActiveSegment) -> bool:
    """False when the files hold what was built anew, as they do if nothing was appended since
    they were synced."""
    disk = recovered.folder.disk
    is_changed = False
    recovered.finish_time_index()
    for index, suffix in (
        (recovered.offset_index, OFFSET_INDEX_SUFFIX),
        (recovered.time_index, TIME_INDEX_SUFFIX),
        (recovered.transaction_index, TXN_INDEX_SUFFIX),
    ):
        path = recovered.path(suffix)
        is_there = disk.exists(path)
        if is_there and disk.read_file(path) == index.entries:
            index.written_bytes = len(index.entries)
        elif suffix == TXN_INDEX_SUFFIX:
            index.written_bytes = 0
            is_changed |= is_there or bool(index.entries)
            disk.remove(path)
        else:
            is_changed = True
            disk.open(path, create=True).truncate(0)
    recovered.write_indexes()
    return is_changed


def _has_gap(header: BatchHeader, expected_offset: int) -> bool:
    return (
        header.base_offset != expected_offset or header.record_count != header.last_offset_delta + 1
    )


def read_transaction_index(segment: Segment) -> TransactionIndex:
    """Raises `CorruptFile`. Waits for the disk."""
    path = segment.path(TXN_INDEX_SUFFIX)
    if not segment.folder.disk.exists(path):
        return TransactionIndex()
    content = segment.folder.disk.read_file(path)
    transaction_index.decode(content, segment.base_offset)
    return TransactionIndex(content, written_bytes=len(content))


def open_active(segment: Segment, config: TopicConfig, now_ms: int) -> ActiveSegment:
    """Opens a sound segment for appending; if its indexes are not, builds them anew. Waits for the
    disk."""
    disk = segment.folder.disk
    offsets = disk.read_file(segment.path(OFFSET_INDEX_SUFFIX))
    times = disk.read_file(segment.path(TIME_INDEX_SUFFIX))
    active = ActiveSegment(
        segment.folder,
        segment.partition_path,
        segment.base_offset,
        disk.open(segment.path(LOG_SUFFIX)),
        size_bytes=segment.size_bytes,
        created_ms=now_ms,
    )
    active.offset_index = OffsetIndex(offsets, written_bytes=len(offsets))
    active.time_index = TimeIndex(times, written_bytes=len(times))
    active.transaction_index = read_transaction_index(segment)
    if offset_index.is_sound(offsets, segment.size_bytes) and time_index.is_sound(times):
        try:
            active.reload_timestamps()
            return active
        except CorruptFile:
            pass  # They lead to where no batch begins.
    logger.warning("rebuilding the indexes of %s", segment.path(LOG_SUFFIX))
    return recover_segment(segment, config, LeaderEpochs(), None, now_ms).segment


def load_producers(
    producer_state: ProducerState,
    snapshots: Snapshots,
    segments: Iterable[Segment],
    *,
    log_end_offset: int,
    now_ms: int,
) -> None:
    """The state at `log_end_offset`: the newest snapshot that is usable, then the batches after
    it, those below the log's start included (Kafka leaves them out, and forgets a producer whose
    records were all deleted). Waits for the disk."""
    offset, entries = snapshots.load_latest(log_end_offset) or (0, [])
    producer_state.reset(entries, now_ms)
    if offset >= log_end_offset:
        return
    remaining = list(segments)
    for number, segment in enumerate(remaining):
        is_below = number + 1 < len(remaining) and remaining[number + 1].base_offset <= offset
        if is_below or segment.base_offset >= log_end_offset:
            continue
        for batch in segment.scan(segment.position_before(offset), headers_only=False):
            if batch.header.base_offset >= log_end_offset:
                break
            if batch.header.base_offset >= offset:
                producer_state.replay(batch.header, batch.content)


def has_sound_indexes(folder: LogFolder, segment: Segment, names: set[str]) -> bool:
    """A look at the names and sizes of a closed segment's indexes, for every segment at start. The
    index of transactions is small, mostly not there, and looked at whole."""
    disk = folder.disk
    for suffix, entry_bytes in (
        (OFFSET_INDEX_SUFFIX, offset_index.ENTRY_BYTES),
        (TIME_INDEX_SUFFIX, time_index.ENTRY_BYTES),
    ):
        path = segment.path(suffix)
        if path.rpartition("/")[2] not in names or disk.size(path) % entry_bytes:
            return False
    if segment.aborted_bytes:
        try:
            read_transaction_index(segment)
        except CorruptFile:
            return False
    return True
