"""Which broker leads instead of this one, told with the error (KIP-951).

A client that hears it goes there at once, and need not ask for metadata first.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.ids import BrokerId
from ottla.metadata.image import NO_LEADER, ClusterImage
from ottla.replication.replica_manager import ReplicaManager


class LeaderHint(NamedTuple):
    leader_id: int
    leader_epoch: int


class HintedNode(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class LeaderHints:
    """Of one response, by the listener that its request came by."""

    def __init__(self, image: ClusterImage, replicas: ReplicaManager, listener_name: str) -> None:
        self._image = image
        self._replicas = replicas
        self._listener_name = listener_name
        self._leader_ids: dict[BrokerId, None] = {}

    def leader_of(self, topic: str, index: int) -> LeaderHint | None:
        """As this broker knows it from its own role, which it hears of first; else as it knows the
        cluster."""
        found = self._replicas.current_leader(topic, index)
        if found is None:
            partition = self._image.partition(topic, index)
            if partition is None or partition.leader == NO_LEADER:
                return None
            found = BrokerId(partition.leader), partition.leader_epoch
        self._leader_ids[found[0]] = None
        return LeaderHint(*found)

    @property
    def nodes(self) -> list[HintedNode]:
        """All leaders that were told, where they can be reached."""
        found = []
        for leader_id in self._leader_ids:
            endpoint = self._image.endpoint(leader_id, self._listener_name)
            if endpoint is not None:
                rack = self._image.brokers[leader_id].rack
                found.append(HintedNode(leader_id, endpoint.host, endpoint.port, rack))
        return found
