"""Looks into all brokers while they run: what must hold at every moment, and what they have been
through.

The history of clients shows what came of it in the end; a leader that lacks what is committed may
be gone before any client has noticed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from ottla.kernel.ids import TopicId
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.testing.simulation.cluster import SimulatedCluster

_LOOK_S = 0.05

Key = tuple[TopicId, int]


class Observer:
    """Owned by a run, over all restarts of its brokers."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.problems: list[str] = []
        self.combinations: set[str] = set()
        """Of role, ISR against the least, an ISR that was asked for, high watermark against the
        log's end, and open transactions: by these seeds can be told to reach something new."""
        self._cluster = cluster
        self._leaders: dict[tuple[Key, int], int] = {}
        """By partition and leader epoch: the broker."""
        self._starts: defaultdict[Key, dict[int, int]] = defaultdict(dict)
        """By leader epoch: where the leader's log ended when it began to lead."""
        self._high_watermarks: defaultdict[Key, dict[int, int]] = defaultdict(dict)

    async def run(self) -> None:
        """For ever."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        for broker_id in sorted(self._cluster.up):
            replicas = self._cluster.machines[broker_id].broker.replicas
            for topic_partition in sorted(replicas.topic_partitions()):
                partition = replicas.hosted(topic_partition)
                if partition is not None:
                    self.combinations.add(_combination(partition))
                    if partition.is_led:
                        self._look_at(broker_id, partition, partition.leader)

    def _look_at(self, broker_id: int, partition: Partition, leader: Leader) -> None:
        name = partition.topic_partition
        key = (partition.topic_id, name.partition)
        epoch = leader.leader_epoch
        other_id = self._leaders.setdefault((key, epoch), broker_id)
        if other_id != broker_id:
            self._found(f"{name} is led by {other_id} and {broker_id} in epoch {epoch}")
        if partition.high_watermark > partition.log.log_end_offset:
            self._found(f"{name} on {broker_id} is committed beyond its end")
        start = self._starts[key].setdefault(epoch, leader.in_sync.epoch_start_offset)
        for earlier, high_watermark in self._high_watermarks[key].items():
            if earlier < epoch and high_watermark > start:
                self._found(
                    f"{name} was committed up to {high_watermark} in epoch {earlier}, and its "
                    f"leader of epoch {epoch}, {broker_id}, began with {start}"
                )
        known = self._high_watermarks[key]
        known[epoch] = max(partition.high_watermark, known.get(epoch, 0))
        for later, start in self._starts[key].items():
            if later > epoch and known[epoch] > start:
                self._found(
                    f"{name} is committed up to {known[epoch]} in epoch {epoch}, by {broker_id}, "
                    f"and its leader of epoch {later} began with {start}"
                )

    def _found(self, problem: str) -> None:
        if problem not in self.problems:
            self._cluster.trace.note(problem)
            self.problems.append(problem)


def _combination(partition: Partition) -> str:
    log = partition.log
    words = [
        "behind" if partition.high_watermark < log.log_end_offset else "committed",
        "in a transaction" if log.first_unstable_offset is not None else "stable",
    ]
    if partition.is_led:
        leader = partition.leader
        in_sync_count = len(leader.in_sync.committed)
        least = leader.min_insync_replicas
        size = "below" if in_sync_count < least else "at" if in_sync_count == least else "above"
        words += [
            f"ISR {size} least",
            "asked for another" if leader.in_sync.proposal is not None else "settled",
        ]
        role = "leads"
    else:
        role = "follows" if partition.follower is not None else "has no role"
    if partition.lane.locked():
        words.append("changing")
    return ", ".join([role, *words])
