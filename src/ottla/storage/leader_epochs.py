"""Which leader epoch wrote which offsets (KIP-101), kept in `leader-epoch-checkpoint`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ottla.storage.checkpoint import format_checkpoint, parse_checkpoint
from ottla.storage.errors import CorruptFile

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Owned by one log. In memory; the log writes `content()` to the file after each change that
    a method reports with True. Both epochs and start offsets grow from entry to entry."""

    __slots__ = ("entries", "latest_epoch")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries: list[EpochEntry] = []
        self.latest_epoch = UNDEFINED_EPOCH
        for entry in entries:
            self.assign(*entry)

    @classmethod
    def parse(cls, content: bytes) -> LeaderEpochs:
        """Raises `CorruptFile`."""
        entries = [
            EpochEntry(int(epoch), int(start))
            for epoch, start in parse_checkpoint(content, column_count=2)
        ]
        for entry in entries:
            if min(entry) < 0:
                raise CorruptFile(f"leader epoch {entry.epoch} from offset {entry.start_offset} on")
        return cls(entries)

    def content(self) -> bytes:
        return format_checkpoint(f"{epoch} {start}" for epoch, start in self.entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """From `start_offset` on records are written by `epoch`. Entries that contradict this are
        leftovers of a leader that wrote nothing, or of a log that was cut, and go."""
        assert epoch >= 0, f"leader epoch {epoch}"
        assert start_offset >= 0, f"start offset {start_offset} of leader epoch {epoch}"
        if self.entries:
            latest = self.entries[-1]
            if epoch == latest.epoch and start_offset >= latest.start_offset:
                return False
        while self.entries and (
            self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset
        ):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above the one asked for, and the offset where it ends (KIP-279);
        (-1, -1) when that cannot be said."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        following = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if following == len(self.entries):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        end_offset = self.entries[following].start_offset
        if following == 0:
            # All that this epoch wrote has been deleted: go on from where the log begins.
            return epoch, end_offset
        return self.entries[following - 1].epoch, end_offset

    def epoch_for_offset(self, offset: int) -> int | None:
        following = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[following - 1].epoch if following else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forgets epochs that begin at or after the log's new end."""
        count = len(self.entries)
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()
        self.latest_epoch = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH
        return len(self.entries) != count

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forgets epochs that end at or before the log's new start; the one that holds it now
        begins there."""
        following = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if following == 0 or (following == 1 and self.entries[0].start_offset == start_offset):
            return False
        first = EpochEntry(self.entries[following - 1].epoch, start_offset)
        self.entries[:following] = [first]
        return True

    def clear(self) -> None:
        self.entries.clear()
        self.latest_epoch = UNDEFINED_EPOCH
