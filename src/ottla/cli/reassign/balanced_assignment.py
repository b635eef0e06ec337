"""Which replicas go where, so that the brokers share the load and little is copied.

Four steps, each of which changes only what it must:

1. A replica stays where it is if its broker is one of the wanted ones, and if another rack that has
   none would not be better.
2. Missing replicas go to the broker that has the fewest of the topic, and of all topics.
3. Replicas move from the fullest to the emptiest broker until no two differ by more than one: in
   each topic, then over all of them.
4. The first replica is the preferred leader. Another one becomes it where brokers would not lead
   equally many partitions, again in each topic first; nothing is copied for that.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping

from ottla.cli.offsets import Partition

Replicas = tuple[int, ...]
Assignment = dict[Partition, Replicas]


def balanced(
    current: Mapping[Partition, Replicas],
    racks: Mapping[int, str | None],
    *,
    replication_factor: int | None = None,
    others: Iterable[Replicas] = (),
) -> Assignment:
    """Where the partitions should be. `racks` has the brokers that may hold them, `others` are the
    replicas of partitions that stay. Without a replication factor each keeps its own."""
    return _Balance(current, racks, replication_factor, others).result()


class _Balance:
    """Lives for one plan."""

    def __init__(
        self,
        current: Mapping[Partition, Replicas],
        racks: Mapping[int, str | None],
        replication_factor: int | None,
        others: Iterable[Replicas],
    ) -> None:
        # As in Kafka, racks count only when every broker has one.
        has_racks = all(rack is not None for rack in racks.values())
        self._racks = {broker: (racks[broker] or "") if has_racks else "" for broker in racks}
        self._rack_count = len(set(self._racks.values()))
        self._current = current
        self._factor = {
            key: replication_factor or len(replicas) for key, replicas in current.items()
        }
        self._placed: dict[Partition, list[int]] = {}
        self._of_topic: dict[str, Counter[int]] = {topic: Counter() for topic, _ in current}
        self._of_all = Counter(broker for replicas in others for broker in replicas)
        for factor in self._factor.values():
            assert factor <= len(racks), "there are brokers enough; the caller has checked"

    def result(self) -> Assignment:
        partitions = sorted(self._current)
        for key in partitions:
            self._placed[key] = []
            for broker in self._kept(key):
                self._add(key, broker)
        for key in partitions:
            while len(self._placed[key]) < self._factor[key]:
                self._add(key, min(self._candidates(key), key=self._load_order(key)))
        by_topic = {
            topic: [key for key in partitions if key[0] == topic] for topic in self._of_topic
        }
        for topic, keys in by_topic.items():
            self._level(keys, self._of_topic[topic])
        self._level(partitions, self._of_all)
        for keys in [*by_topic.values(), partitions]:
            self._spread_leaders(keys)
        return {key: tuple(self._placed[key]) for key in partitions}

    # -- replicas -----------------------------------------------------------------------------

    def _kept(self, key: Partition) -> list[int]:
        """Those that stay, in their order."""
        kept: list[int] = []
        for broker in self._current[key]:
            if broker in self._racks and len(kept) < self._factor[key]:
                kept.append(broker)
        racks_wanted = min(self._factor[key], self._rack_count)
        while True:
            racks = Counter(self._racks[broker] for broker in kept)
            missing = racks_wanted - len(racks)
            if missing <= self._factor[key] - len(kept):
                return kept
            # The last of a rack that has several: the first replica is the leader.
            kept.remove(next(each for each in reversed(kept) if racks[self._racks[each]] > 1))

    def _candidates(self, key: Partition) -> list[int]:
        """Brokers that may have one more replica of it: where a rack has none, only its own."""
        placed = self._placed[key]
        used = {self._racks[broker] for broker in placed}
        free = [broker for broker in self._racks if broker not in placed]
        fresh = [broker for broker in free if self._racks[broker] not in used]
        return fresh or free

    def _load_order(self, key: Partition) -> Callable[[int], tuple[int, int, int]]:
        of_topic, of_all = self._of_topic[key[0]], self._of_all
        return lambda broker: (of_topic[broker], of_all[broker], broker)

    def _level(self, partitions: Collection[Partition], load: Counter[int]) -> None:
        """Moves replicas until no broker has two more than another, or none may move. Each pair of
        brokers has its turn: none is emptied below what it will have in the end."""
        moved = True
        while moved:
            moved = False
            order = sorted(self._racks, key=lambda broker: (load[broker], self._of_all[broker]))
            for full in reversed(order):
                for empty in order:
                    if load[full] - load[empty] > 1:
                        moved |= self._move_one(partitions, full, empty)

    def _move_one(self, partitions: Collection[Partition], full: int, empty: int) -> bool:
        """Those that move anyway go first: that copies nothing more. Leaders stay if they can."""

        def cost(key: Partition) -> tuple[bool, bool]:
            return full in self._current[key], self._placed[key][0] == full

        for key in sorted((key for key in partitions if full in self._placed[key]), key=cost):
            placed = self._placed[key]
            of_topic = self._of_topic[key[0]]
            if empty in placed or of_topic[full] <= of_topic[empty]:
                continue
            staying = [broker for broker in placed if broker != full]
            racks_before = len({self._racks[broker] for broker in placed})
            if len({self._racks[broker] for broker in (*staying, empty)}) < racks_before:
                continue
            position = placed.index(full)
            self._remove(key, full)
            self._add(key, empty, position)
            return True
        return False

    def _add(self, key: Partition, broker: int, position: int | None = None) -> None:
        placed = self._placed[key]
        placed.insert(len(placed) if position is None else position, broker)
        self._of_topic[key[0]][broker] += 1
        self._of_all[broker] += 1

    def _remove(self, key: Partition, broker: int) -> None:
        self._placed[key].remove(broker)
        self._of_topic[key[0]][broker] -= 1
        self._of_all[broker] -= 1

    # -- leaders ------------------------------------------------------------------------------

    def _spread_leaders(self, partitions: Collection[Partition]) -> None:
        """A leadership may have to go by way of a third broker, so the shortest way is looked for
        from one that leads more to one that leads two less."""
        leads = Counter(dict.fromkeys(self._racks, 0))
        leads.update(self._placed[key][0] for key in partitions)
        while True:
            for full in sorted(leads, key=lambda broker: (-leads[broker], broker)):
                way = self._way_from(full, partitions, leads)
                if way:
                    break
            else:
                return
            for key, broker in way:
                leads[self._placed[key][0]] -= 1
                leads[broker] += 1
                self._placed[key].remove(broker)
                self._placed[key].insert(0, broker)

    def _way_from(
        self, full: int, partitions: Collection[Partition], leads: Counter[int]
    ) -> list[tuple[Partition, int]]:
        """Partitions, and who leads each instead; empty if there is no way. What is even within a
        topic stays so."""
        of_topic: dict[str, Counter[int]] = {}
        for key in partitions:
            of_topic.setdefault(key[0], Counter())[self._placed[key][0]] += 1
        ways: dict[int, list[tuple[Partition, int]]] = {full: []}
        queue = deque([full])
        while queue:
            broker = queue.popleft()
            if leads[full] - leads[broker] > 1:
                return ways[broker]
            for key in partitions:
                first, *rest = self._placed[key]
                for other in rest if first == broker else ():
                    even = of_topic[key[0]][broker] <= of_topic[key[0]][other]
                    if other not in ways and not (even and len(of_topic) > 1):
                        ways[other] = [*ways[broker], (key, other)]
                        queue.append(other)
        return []
