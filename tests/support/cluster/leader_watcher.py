"""Asks every broker, over and over, who leads what: no two may lead in one epoch."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.testing.history.events import LeaderSeen
from ottla.testing.history.history import History
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.recorded_client import RecordedClient

_PAUSE_S = 0.1


class LeaderWatcher(RecordedClient):
    def __init__(self, cluster: BrokerCluster, history: History, topics: Sequence[str]) -> None:
        super().__init__("leader-watcher", cluster.bootstrap, history)
        self._cluster = cluster
        self._topics = topics
        self._seen: set[LeaderSeen] = set()

    def run(self) -> None:
        while not self.is_stopping:
            for broker_id in self._cluster.alive:
                found = self._cluster.partitions_at(broker_id, self._topics)
                for partition, told in found.items():
                    if told.leader_id >= 0:
                        self._see(
                            LeaderSeen(self.name, partition, told.leader_id, told.leader_epoch)
                        )
            self.pause(_PAUSE_S)

    def _see(self, seen: LeaderSeen) -> None:
        if seen not in self._seen:
            self._seen.add(seen)
            self.history.add(seen)
            self.progress += 1
