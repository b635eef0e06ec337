"""Partitions of a benchmark that move to other brokers. librdkafka cannot ask for it: the client of
`ottla reassign` does, which asks Apache Kafka as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.broker import BenchError
from bench.cluster import Cluster
from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_reassignments import alter_reassignments
from ottla.kernel.ids import TopicPartition


def begin(cluster: Cluster, topic: str, targets: Mapping[int, Sequence[int]]) -> None:
    """`targets` are the replicas by partition."""
    hosts = (node.address.rsplit(":", 1) for node in cluster.running())
    with BlockingCluster([(host, int(port)) for host, port in hosts]) as client:
        wanted = {TopicPartition(topic, number): each for number, each in targets.items()}
        refused = alter_reassignments(client, wanted)
    if refused:
        raise BenchError(f"{len(refused)} of {len(targets)} reassignments were refused")
