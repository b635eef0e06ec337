"""From a partition's folder to its log, after a clean stop or a crash."""

from __future__ import annotations

import logging
import random
from typing import NamedTuple

from ottla.config.topic import TopicConfig
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.storage.errors import CorruptFile
from ottla.storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    split_file_name,
)
from ottla.storage.folder import LogFolder
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.log import Log
from ottla.storage.partition_metadata import (
    is_torn,
    parse_partition_metadata,
    write_partition_metadata,
)
from ottla.storage.producer_snapshot import encode_snapshot
from ottla.storage.producer_state import ProducerState, ProducerStateConfig
from ottla.storage.recovery import (
    Recovered,
    has_sound_indexes,
    load_producers,
    open_active,
    recover_segment,
    tidy_folder,
)
from ottla.storage.segment import ActiveSegment, Segment
from ottla.storage.segments import draw_roll_jitter_ms
from ottla.storage.snapshots import Snapshots

logger = logging.getLogger(__name__)


class Checkpoints(NamedTuple):
    """What the log dir's checkpoints say of one log."""

    recovery_point: int = 0
    log_start_offset: int = 0


class LogLoader:
    """Loads one log. Made for each, used once, off the loop if there is much to do: it opens
    files by itself and submits nothing."""

    def __init__(
        self,
        folder: LogFolder,
        path: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        checkpoints: Checkpoints,
        is_clean: bool,
        producer_config: ProducerStateConfig,
        rng: random.Random,
    ) -> None:
        self._folder = folder
        self._disk = folder.disk
        self._path = path
        self.topic_partition = topic_partition
        self._config = config
        self._checkpoints = checkpoints
        self._is_clean = is_clean
        self._rng = rng
        self._now_ms = folder.clock.now_ms()
        self._producer_state = ProducerState(topic_partition, producer_config)
        self._leader_epochs = LeaderEpochs()
        self._written_epochs: list[EpochEntry] = []
        self._producer_config = producer_config
        self._recovery_point = checkpoints.recovery_point
        self.has_unsynced_topic_id = False
        """Whether the power may still take it. Known when the log is loaded."""

    def load(self) -> Log:
        """Raises CorruptFile for what it cannot mend."""
        names = set(tidy_folder(self._disk, self._path))
        return self._load(names, self._read_topic_id(names))

    def make(self, topic_id: TopicId | None) -> Log:
        """For a folder that was just made: there is nothing to be looked for. The id is written
        before the log is there to be written to: a log without one is taken for one of any topic
        of its name, and after a kill that may be another. Whoever called has it synced."""
        if topic_id is not None:
            write_partition_metadata(self._disk, self._path, topic_id)
        return self._load(set(), topic_id)

    def _load(self, names: set[str], topic_id: TopicId | None) -> Log:
        snapshots = Snapshots.find(self._disk, self._path, names)
        are_epochs_lost = not self._read_leader_epochs(names)
        segments = self._find_segments(names)
        active, log_end_offset = self._open_segments(segments, names, snapshots, are_epochs_lost)
        log_start_offset = max(
            self._checkpoints.log_start_offset, (segments or [active])[0].base_offset
        )
        if log_end_offset < log_start_offset:
            logger.warning(
                "dropping all of %s: it ends at %d, before its start %d",
                self._path,
                log_end_offset,
                log_start_offset,
            )
            self._drop([*segments, active])
            segments = []
            active = self._create_active(log_start_offset)
            log_end_offset = log_start_offset
            self._producer_state.reset([], self._now_ms)
        active.roll_jitter_ms = draw_roll_jitter_ms(self._config, self._rng)
        self._leader_epochs.truncate_from_end(log_end_offset)
        self._leader_epochs.truncate_from_start(log_start_offset)
        are_epochs_written = self._write_leader_epochs()
        base_offsets = [segment.base_offset for segment in (*segments, active)]
        snapshots.remove_outside(base_offsets[0], log_end_offset)
        snapshots.remove_strays(base_offsets)
        return Log(
            folder=self._folder,
            path=self._path,
            topic_partition=self.topic_partition,
            topic_id=topic_id,
            config=self._config,
            segments=segments,
            active=active,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=min(self._recovery_point, log_end_offset),
            leader_epochs=self._leader_epochs,
            are_epochs_written=are_epochs_written,
            producer_state=self._producer_state,
            snapshots=snapshots,
            rng=self._rng,
        )

    def _open_segments(
        self, segments: list[Segment], names: set[str], snapshots: Snapshots, are_epochs_lost: bool
    ) -> tuple[ActiveSegment, int]:
        """Takes the last one off the list and opens it for appending; returns the log's end."""
        if not segments:
            start_offset = self._checkpoints.log_start_offset
            active = self._create_active(start_offset, is_folder_new=not names)
            return active, active.base_offset
        if not self._is_clean:
            return self._recover(segments, names, snapshots)
        for segment in segments:
            if are_epochs_lost or not has_sound_indexes(self._folder, segment, names):
                self._rebuild_indexes(segment, segments, snapshots)
        active = open_active(segments.pop(), self._config, self._now_ms)
        active.is_entry_synced = not active.unsynced_indexes
        log_end_offset = active.base_offset
        for batch in active.scan(active.offset_index.last_entry()[1]):
            log_end_offset = batch.header.next_offset
        # Without any snapshot this was a broker from before there were any: Kafka does not read
        # the whole log for them then, and neither do we.
        if snapshots.offsets:
            load_producers(
                self._producer_state,
                snapshots,
                [*segments, active],
                log_end_offset=log_end_offset,
                now_ms=self._now_ms,
            )
        self._recovery_point = log_end_offset
        return active, log_end_offset

    def _rebuild_indexes(
        self, segment: Segment, segments: list[Segment], snapshots: Snapshots
    ) -> None:
        logger.warning("rebuilding the indexes of %s", segment.path(LOG_SUFFIX))
        # A transaction that was aborted in it may have begun before it.
        producer_state = ProducerState(self.topic_partition, self._producer_config)
        load_producers(
            producer_state,
            snapshots,
            segments,
            log_end_offset=segment.base_offset,
            now_ms=self._now_ms,
        )
        recovered = recover_segment(
            segment, self._config, self._leader_epochs, producer_state, self._now_ms
        ).segment
        self._sync(recovered)
        segment.size_bytes = recovered.size_bytes
        segment.aborted_bytes = len(recovered.transaction_index.entries)

    def _recover(
        self, segments: list[Segment], names: set[str], snapshots: Snapshots
    ) -> tuple[ActiveSegment, int]:
        """After a crash: looks at everything above the recovery point, and ends the log where the
        first thing is wrong."""
        first = 0
        for number, segment in enumerate(segments):
            if segment.base_offset <= self._recovery_point:
                first = number
        unflushed = segments[first:]
        del segments[first:]
        for segment in segments:
            if not has_sound_indexes(self._folder, segment, names):
                self._rebuild_indexes(segment, segments, snapshots)
        load_producers(
            self._producer_state,
            snapshots,
            segments,
            log_end_offset=unflushed[0].base_offset,
            now_ms=self._now_ms,
        )
        while True:
            segment = unflushed.pop(0)
            recovered = recover_segment(
                segment, self._config, self._leader_epochs, self._producer_state, self._now_ms
            )
            if recovered.cut_bytes or self._is_end_lost(recovered, unflushed):
                self._drop(unflushed)
                unflushed = []
            if not unflushed:
                unsynced_count = recovered.next_offset - self._recovery_point
                if unsynced_count >= self._config.flush_messages:
                    # Readers are shown all of it from now on: the power must not take it back.
                    self._sync(recovered.segment)
                    self._recovery_point = recovered.next_offset
                elif recovered.is_changed and segment.base_offset < self._recovery_point:
                    # It may be rolled at its recovery point. After that nobody looks into it.
                    self._sync(recovered.segment)
                return recovered.segment, recovered.next_offset
            self._sync(recovered.segment)
            self._take_snapshot(snapshots, unflushed[0].base_offset)
            segments.append(
                Segment(
                    self._folder,
                    self._path,
                    segment.base_offset,
                    recovered.segment.size_bytes,
                    largest=recovered.segment.largest(),
                    aborted_bytes=len(recovered.segment.transaction_index.entries),
                )
            )

    def _take_snapshot(self, snapshots: Snapshots, offset: int) -> None:
        """Each segment has one at its start; the crash may have come before it was written. When
        the segments before it are deleted, nothing else remembers their producers."""
        if offset not in snapshots.offsets:
            snapshots.add(offset, encode_snapshot(self._producer_state.producers.values()))
            snapshots.write(offset)

    def _is_end_lost(self, recovered: Recovered, following: list[Segment]) -> bool:
        """Files reach the disk in any order: a segment may have lost its last batches, cleanly,
        while the next is there. A segment begins where the one before ends; only compaction
        leaves a gap between them, and then also gaps inside."""
        if not following:
            return False
        gap = following[0].base_offset - recovered.next_offset
        is_compacted = recovered.has_gaps or "compact" in self._config.cleanup_policy
        return gap < 0 or (gap > 0 and not is_compacted)

    def _sync(self, recovered: ActiveSegment) -> None:
        """A closed segment above the recovery point may never have been synced, and no later
        flush would do it."""
        self._sync_topic_id()
        recovered.file.sync()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            path = recovered.path(suffix)
            if self._disk.exists(path):
                self._disk.open(path).sync()
        self._disk.sync_folder(self._path)

    def _drop(self, segments: list[Segment]) -> None:
        if not segments:
            return
        for segment in segments:
            logger.warning("dropping %s: records before it are lost", segment.path(LOG_SUFFIX))
            segment.rename_deleted()
            for path in segment.deleted_paths():
                self._disk.remove(path)
        # Else a second crash might bring them back, in the midst of what was appended since.
        self._disk.sync_folder(self._path)

    def _find_segments(self, names: set[str]) -> list[Segment]:
        parts = sorted(part for name in names if (part := split_file_name(name)))
        base_offsets = [offset for offset, suffix in parts if suffix == LOG_SUFFIX]
        known = set(base_offsets)
        with_aborted = {offset for offset, suffix in parts if suffix == TXN_INDEX_SUFFIX}
        for offset, suffix in parts:
            if suffix in SEGMENT_SUFFIXES and offset not in known:
                logger.warning("removing an index of %s that has no log: %d", self._path, offset)
                self._disk.remove(Segment(self._folder, self._path, offset, 0).path(suffix))
        segments = []
        for offset in base_offsets:
            segment = Segment(self._folder, self._path, offset, 0)
            segment.size_bytes = self._disk.size(segment.path(LOG_SUFFIX))
            if offset in with_aborted:
                segment.aborted_bytes = self._disk.size(segment.path(TXN_INDEX_SUFFIX))
            segments.append(segment)
        return segments

    def _create_active(self, base_offset: int, *, is_folder_new: bool = False) -> ActiveSegment:
        return ActiveSegment.create(
            self._folder, self._path, base_offset, self._now_ms, is_folder_new=is_folder_new
        )

    def _read_leader_epochs(self, names: set[str]) -> bool:
        """False when the file is damaged; the batches know the epochs as well."""
        if LEADER_EPOCH_CHECKPOINT in names:
            try:
                content = self._disk.read_file(f"{self._path}/{LEADER_EPOCH_CHECKPOINT}")
                self._leader_epochs = LeaderEpochs.parse(content)
                self._written_epochs = list(self._leader_epochs.entries)
            except CorruptFile as error:
                logger.warning("rebuilding the leader epochs of %s: %s", self._path, error)
                self._recovery_point = 0
                return False
        return True

    def _write_leader_epochs(self) -> bool:
        """What recovery learnt from the batches must be in the file before a flush moves the
        recovery point past them: then nobody will look at them again. False where the file has
        only more than there is, epochs without records."""
        entries = self._leader_epochs.entries
        if entries == self._written_epochs:
            return True
        if entries == self._written_epochs[: len(entries)]:
            return False
        self._sync_topic_id()
        path = f"{self._path}/{LEADER_EPOCH_CHECKPOINT}"
        self._disk.replace_file(path, self._leader_epochs.content())
        return True

    def _read_topic_id(self, names: set[str]) -> TopicId | None:
        if PARTITION_METADATA not in names:
            return None
        path = f"{self._path}/{PARTITION_METADATA}"
        content = self._disk.read_file(path)
        if is_torn(content):
            # The power went when the log was just made, and nothing of it was synced either. There
            # may have been a clean stop since, if nobody told of the partition meanwhile.
            logger.warning("%s was never synced", path)
            return None
        # The log dir's queue writes that one after it has synced this one: a kill may have come
        # before. The power would take the id, leave records that are synced from now on, and a
        # later topic of that name would have them.
        self.has_unsynced_topic_id = not self._is_clean and LEADER_EPOCH_CHECKPOINT not in names
        try:
            return parse_partition_metadata(content)
        except CorruptFile as error:
            # It may be the log of an earlier topic of that name.
            raise CorruptFile(
                f"{error}. Where the records are those of the topic that has this name now, delete"
                " the file"
            ) from error

    def _sync_topic_id(self) -> None:
        """Before a record is synced, or its leader epoch. Most logs have none that need it: the log
        manager has the ids of all of them synced at once."""
        if self.has_unsynced_topic_id:
            self._disk.open(f"{self._path}/{PARTITION_METADATA}").sync()
            self._disk.sync_folder(self._path)
            self.has_unsynced_topic_id = False
