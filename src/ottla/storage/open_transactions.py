"""The transactions that hold back readers of committed records in one partition."""

from __future__ import annotations


class OpenTransactions:
    """Owned by the producer state of one log, and always at its end. A crash loses it; snapshots
    and batches tell it again.

    `first_unstable_offset` is where the oldest transaction begins that is not decided, or that is
    while its marker may still be lost: it lies at or above the high watermark."""

    __slots__ = ("first_unstable_offset", "ongoing", "unreplicated")

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}
        """First offset to producer id, lowest first."""
        self.unreplicated: dict[int, int] = {}
        """First offset to the offset of the marker."""
        self.first_unstable_offset: int | None = None

    def begin(self, first_offset: int, producer_id: int) -> None:
        self.ongoing[first_offset] = producer_id
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Returns the last stable offset once the marker is replicated."""
        del self.ongoing[first_offset]
        self.unreplicated[first_offset] = marker_offset
        return next(iter(self.ongoing), marker_offset + 1)

    def replicated_to(self, high_watermark: int) -> None:
        """Markers below it are there to stay."""
        for first_offset, marker_offset in list(self.unreplicated.items()):
            if marker_offset < high_watermark:
                del self.unreplicated[first_offset]
        first = next(iter(self.ongoing), None)
        if self.unreplicated:
            decided = min(self.unreplicated)
            first = decided if first is None else min(first, decided)
        self.first_unstable_offset = first

    def reset(self, ongoing: dict[int, int]) -> None:
        """To what a snapshot knows, in any order."""
        self.ongoing.clear()
        self.ongoing.update(sorted(ongoing.items()))
        self.unreplicated.clear()
        self.first_unstable_offset = next(iter(self.ongoing), None)
