"""Which groups there are, of all coordinators of a cluster."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_topics import describe_cluster
from ottla.client.cluster import Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_INACTIVE = frozenset({"Empty", "Dead"})
_CONSUMERS = frozenset({"", "classic", "consumer"})
"""The types whose members read by committed offsets. Brokers before Kafka 3.8 say none."""


class ListedGroup(NamedTuple):
    state: str
    """As Kafka spells it; empty from a broker before Kafka 2.6."""

    @property
    def is_active(self) -> bool:
        """Whether it has members, as far as the broker tells."""
        return bool(self.state) and self.state not in _INACTIVE


def list_consumer_groups(cluster: BlockingCluster) -> dict[str, ListedGroup]:
    """By name: those of consumers, and those that only ever committed offsets."""
    found: dict[str, ListedGroup] = {}
    for node in describe_cluster(cluster).brokers:
        found.update(cluster.retrying("listing groups", partial(_list, cluster, node)))
    return found


def _list(cluster: BlockingCluster, node: Node) -> dict[str, ListedGroup]:
    response = cluster.ask(ListGroupsRequest(), ListGroupsResponse, node=node)
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), f"listing groups of {node.host}")
    return {
        group.group_id: ListedGroup(group.group_state)
        for group in response.groups
        if group.protocol_type in ("", "consumer") and group.group_type.lower() in _CONSUMERS
    }
