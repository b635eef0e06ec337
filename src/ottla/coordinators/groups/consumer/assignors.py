"""Who shall read what: the assignors of the broker (KIP-848).

- `uniform` gives every member as many partitions as any other, give or take one, and moves as few
  as that allows.
- `range` gives every member a run of neighbouring partitions of each topic, so that members that
  read several topics with as many partitions each get the same numbers of all of them.

Racks play no part in either, as in Kafka's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.coordinators.groups.consumer.member import Assignment
from ottla.kernel.ids import TopicId
from ottla.kernel.slices import Steps


class MemberSpec(NamedTuple):
    instance_id: str | None
    topic_ids: frozenset[TopicId]
    """What it subscribes to; all of them exist."""
    assigned: Assignment
    """What it was to have until now."""


Members = Mapping[str, MemberSpec]
PartitionCounts = Mapping[TopicId, int]
Assignments = dict[str, Assignment]
Assignor = Callable[[Members, PartitionCounts], Steps[Assignments]]

_Partition = tuple[TopicId, int]


def assign_uniform(members: Members, counts: PartitionCounts) -> Steps[Assignments]:
    """Everything that somebody subscribes to goes to exactly one of those who do."""
    kept = yield from _kept(members, counts)
    subscriptions = {spec.topic_ids for spec in members.values()}
    if len(subscriptions) == 1:
        yield from _level_alike(kept, subscriptions.pop(), counts)
    elif members:
        yield from _Levelling(members, counts, kept).run()
    assignments: Assignments = {}
    for member_id, partitions in kept.items():
        assignments[member_id] = yield from _grouped(partitions)
    return assignments


def assign_range(members: Members, counts: PartitionCounts) -> Steps[Assignments]:
    """Static members come first, by their instance ids, so that a restart changes nothing."""
    order = sorted(
        members,
        key=lambda member_id: (
            members[member_id].instance_id is None,
            members[member_id].instance_id or member_id,
        ),
    )
    assignments: dict[str, dict[TopicId, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id in sorted(set().union(*(spec.topic_ids for spec in members.values()))):
        readers = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        size, larger = divmod(counts[topic_id], len(readers))
        start = 0
        for position, member_id in enumerate(readers):
            end = start + size + (position < larger)
            if start < end:
                assignments[member_id][topic_id] = frozenset(range(start, end))
            start = end
            yield
    return dict(assignments)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _kept(members: Members, counts: PartitionCounts) -> Steps[dict[str, list[_Partition]]]:
    """What each member may keep of what it had, in order. Of two that had the same, one."""
    kept: dict[str, list[_Partition]] = {}
    taken: set[_Partition] = set()
    for member_id, spec in members.items():
        mine = kept[member_id] = []
        for topic_id in sorted(spec.assigned.keys() & spec.topic_ids):
            for partition in sorted(spec.assigned[topic_id]):
                at = topic_id, partition
                if partition < counts[topic_id] and at not in taken:
                    mine.append(at)
                    taken.add(at)
                yield
        yield
    return kept


def _free(
    kept: Mapping[str, list[_Partition]], topic_ids: Iterable[TopicId], counts: PartitionCounts
) -> Steps[list[_Partition]]:
    taken: set[_Partition] = set()
    for partitions in kept.values():
        taken.update(partitions)
        yield
    free: list[_Partition] = []
    for topic_id in topic_ids:
        for partition in range(counts[topic_id]):
            if (topic_id, partition) not in taken:
                free.append((topic_id, partition))
            yield
    return free


def _level_alike(
    kept: dict[str, list[_Partition]], topic_ids: frozenset[TopicId], counts: PartitionCounts
) -> Steps[None]:
    """All members subscribe to the same: each gets its share, or one more."""
    share, extra = divmod(sum(counts[topic_id] for topic_id in topic_ids), len(kept))
    # One more is best given to who has it already: that moves nothing.
    by_load = sorted(kept, key=lambda member_id: -len(kept[member_id]))
    quotas = {member_id: share + (rank < extra) for rank, member_id in enumerate(by_load)}
    for member_id, partitions in kept.items():
        del partitions[quotas[member_id] :]
    free = yield from _free(kept, sorted(topic_ids), counts)
    start = 0
    for member_id, partitions in kept.items():
        end = start + quotas[member_id] - len(partitions)
        partitions += free[start:end]
        start = end
        yield


class _Levelling:
    """Members subscribe to different topics. Lives for one assignment."""

    def __init__(
        self, members: Members, counts: PartitionCounts, kept: dict[str, list[_Partition]]
    ) -> None:
        self._counts = counts
        self._kept = kept
        self._readers: dict[TopicId, list[str]] = {}
        for member_id, spec in members.items():
            for topic_id in spec.topic_ids:
                self._readers.setdefault(topic_id, []).append(member_id)
        # Topics with many partitions for each reader first: the small ones then even out.
        self._topic_ids = sorted(
            self._readers,
            key=lambda topic_id: (
                -counts[topic_id] / len(self._readers[topic_id]),
                len(self._readers[topic_id]),
                topic_id,
            ),
        )

    def run(self) -> Steps[None]:
        yield from self._assign_free()
        # A move takes from one who has two more at least than the one it gives to, so that the
        # sum of the squares shrinks, and this ends.
        has_moved = True
        while has_moved:
            has_moved = False
            for topic_id in self._topic_ids:
                has_moved |= yield from self._level(topic_id)

    def _assign_free(self) -> Steps[None]:
        free: dict[TopicId, list[int]] = {}
        found = yield from _free(self._kept, self._topic_ids, self._counts)
        for topic_id, partition in found:
            free.setdefault(topic_id, []).append(partition)
        for topic_id, partitions in free.items():
            loads = [
                (len(self._kept[member_id]), position, member_id)
                for position, member_id in enumerate(self._readers[topic_id])
            ]
            heapq.heapify(loads)
            for partition in partitions:
                load, position, member_id = loads[0]
                self._kept[member_id].append((topic_id, partition))
                heapq.heapreplace(loads, (load + 1, position, member_id))
                yield

    def _level(self, topic_id: TopicId) -> Steps[bool]:
        """Moves partitions of the topic among its readers. False if none had to move."""
        readers = self._readers[topic_id]
        owned = {
            member_id: [each for each in self._kept[member_id] if each[0] == topic_id]
            for member_id in readers
        }
        has_moved = False
        while True:
            least = min(readers, key=lambda member_id: len(self._kept[member_id]))
            givers = [member_id for member_id in readers if owned[member_id]]
            most = max(givers, key=lambda member_id: len(self._kept[member_id]), default=least)
            if len(self._kept[most]) - len(self._kept[least]) < 2:
                return has_moved
            partition = owned[most].pop()
            self._kept[most].remove(partition)
            owned[least].append(partition)
            self._kept[least].append(partition)
            has_moved = True
            yield


def _grouped(partitions: Iterable[_Partition]) -> Steps[Assignment]:
    by_topic: dict[TopicId, set[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, set()).add(partition)
        yield
    return {topic_id: frozenset(parts) for topic_id, parts in by_topic.items()}
