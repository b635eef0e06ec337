"""The producer snapshots of one log, as files."""

from __future__ import annotations

import logging
from bisect import bisect_right, insort
from collections.abc import Iterable

from ottla.kernel.disk import Disk
from ottla.storage.errors import CorruptFile
from ottla.storage.file_names import SNAPSHOT_SUFFIX, file_name, split_file_name
from ottla.storage.producer_entry import ProducerEntry
from ottla.storage.producer_snapshot import decode_snapshot

logger = logging.getLogger(__name__)


class Snapshots:
    """Knows at which offsets there are snapshots, oldest first. Owned by one log. Each segment
    has one at its base offset, and goes together with it; a clean stop leaves one more at the
    end of the log."""

    def __init__(self, disk: Disk, partition_path: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._partition_path = partition_path
        self.offsets = sorted(offsets)
        self._unwritten: dict[int, bytes] = {}

    @classmethod
    def find(cls, disk: Disk, partition_path: str, names: Iterable[str]) -> Snapshots:
        parts = [split_file_name(name) for name in names]
        return cls(
            disk, partition_path, [part[0] for part in parts if part and part[1] == SNAPSHOT_SUFFIX]
        )

    @property
    def latest_offset(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def path(self, offset: int) -> str:
        return f"{self._partition_path}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def add(self, offset: int, content: bytes) -> None:
        """`write` puts it into its file later; until then it is had from memory."""
        if offset not in self.offsets:
            insort(self.offsets, offset)
        self._unwritten[offset] = content

    def write(self, offset: int, *, syncs_folder: bool = True) -> None:
        """Off the loop."""
        content = self._unwritten.get(offset)
        if content is not None:
            self._disk.replace_file(self.path(offset), content, syncs_folder=syncs_folder)
            self._unwritten.pop(offset, None)

    def discard(self, offset: int) -> bool:
        """Forgets one; True when it was known and its file is now to be removed."""
        if offset not in self.offsets:
            return False
        self.offsets.remove(offset)
        self._unwritten.pop(offset, None)
        return True

    def load_latest(self, offset_max: int) -> tuple[int, list[ProducerEntry]] | None:
        """The newest that is readable and not above the offset. One that is not readable is
        removed: the batches since an older one say the same. Waits for the disk."""
        for offset in reversed(self.offsets[: bisect_right(self.offsets, offset_max)]):
            try:
                content = self._unwritten.get(offset) or self._disk.read_file(self.path(offset))
                return offset, decode_snapshot(content)
            except CorruptFile as error:
                logger.warning("dropping %s: %s", self.path(offset), error)
                self.remove(offset)
        return None

    def remove(self, offset: int) -> None:
        if self.discard(offset):
            self._disk.remove(self.path(offset))

    def remove_outside(self, first_base_offset: int, log_end_offset: int) -> None:
        """Drops what lies after the end, or before the first segment. Kafka drops those at the
        log's start and before too: after its records were deleted by offset, and a crash, it
        has forgotten their producers and their open transactions."""
        for offset in list(self.offsets):
            if offset > log_end_offset or offset < first_base_offset:
                self.remove(offset)

    def remove_strays(self, segment_base_offsets: Iterable[int]) -> None:
        """Keeps one for each segment and the newest of all, as Kafka does: others were left by a
        crash between the deletion of a segment and that of its snapshot, or by a clean stop."""
        base_offsets = set(segment_base_offsets)
        for offset in self.offsets[:-1]:
            if offset not in base_offsets:
                self.remove(offset)
