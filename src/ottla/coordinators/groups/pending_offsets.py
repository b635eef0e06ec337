"""Offsets that a transaction has committed and that wait for its end.

They are no offsets yet: nobody reads them, but one who asks for stable offsets is told to wait.
When the marker of the transaction comes they become offsets, or are dropped.

A plain commit that is written while one of these waits is the newer of the two and stays, whatever
becomes of the transaction. So it is not the order of the ends that counts but that of the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.coordinators.groups.committed_offset import CommittedOffset
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import Steps, sorted_in_steps


class PendingOffset(NamedTuple):
    record_offset: int
    committed: CommittedOffset


class PendingOffsets:
    """Owned by the offsets of one shard. A crash leaves the records and the markers in the log,
    from which it comes back; what has no marker there waits on."""

    __slots__ = ("_producers", "groups")

    def __init__(self) -> None:
        self.groups: dict[str, dict[TopicPartition, dict[int, PendingOffset | None]]] = {}
        """By group, partition and producer id; None has been overtaken by a newer commit. Empty
        when nothing waits, which is what replaying a million plain offsets looks at."""
        self._producers: dict[int, set[tuple[str, TopicPartition]]] = {}

    def add(
        self, producer_id: int, group_id: str, at: TopicPartition, offset: PendingOffset
    ) -> None:
        self.groups.setdefault(group_id, {}).setdefault(at, {})[producer_id] = offset
        self._producers.setdefault(producer_id, set()).add((group_id, at))

    def contains(self, group_id: str, at: TopicPartition) -> bool:
        return at in self.groups.get(group_id, ())

    def partitions(self, group_id: str) -> Iterator[TopicPartition]:
        return iter(self.groups.get(group_id, ()))

    def overtake(self, group_id: str, at: TopicPartition, record_offset: int | None = None) -> None:
        """A newer commit is visible: of one that was written at `record_offset`, or just now."""
        waiting = self.groups.get(group_id, {}).get(at, {})
        for producer_id, pending in waiting.items():
            if pending and (record_offset is None or pending.record_offset < record_offset):
                waiting[producer_id] = None

    def forget(self, group_id: str, at: TopicPartition) -> None:
        """The offset was deleted: no transaction brings it back."""
        for producer_id in list(self.groups.get(group_id, {}).get(at, ())):
            self._remove(producer_id, group_id, at)

    def end(self, producer_id: int) -> Steps[list[tuple[str, TopicPartition, PendingOffset]]]:
        """Takes out what this producer's transaction has committed, and returns what may become
        visible."""
        taken: list[tuple[str, TopicPartition, PendingOffset]] = []
        for group_id, at in list(self._producers.get(producer_id, ())):
            pending = self._remove(producer_id, group_id, at)
            if pending is not None:
                taken.append((group_id, at, pending))
            yield
        return (yield from sorted_in_steps(taken, key=lambda one: one[2].record_offset))

    def _remove(self, producer_id: int, group_id: str, at: TopicPartition) -> PendingOffset | None:
        partitions = self.groups[group_id]
        pending = partitions[at].pop(producer_id)
        if not partitions[at]:
            del partitions[at]
        if not partitions:
            del self.groups[group_id]
        touched = self._producers[producer_id]
        touched.discard((group_id, at))
        if not touched:
            del self._producers[producer_id]
        return pending
