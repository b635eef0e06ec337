"""What lies on the brokers' disks: DescribeLogDirs, which confluent-kafka's AdminClient lacks, over
connections of our own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, addresses_of


class Replica(NamedTuple):
    """One copy of a partition on a broker's disk."""

    broker_id: int
    topic: str
    partition: int
    size_bytes: int


def replicas_on_disk(cluster: Cluster, brokers: Iterable[Any]) -> list[Replica] | None:
    """Of all brokers, in one request to each. None where one could not be asked: sizes are good to
    know, and no reason for a command to fail. TLS and SASL are not spoken here."""
    if cluster.properties.get("security.protocol", "plaintext").lower() != "plaintext":
        return None
    # With codecs of ours: only what shows sizes pays for them.
    from ottla.client.blocking import ClientError
    from ottla.client.blocking_cluster import BlockingCluster
    from ottla.client.cluster import Node
    from ottla.kernel.errors import KafkaError
    from ottla.wire.messages.describe_log_dirs import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    found: list[Replica] = []
    bootstrap = addresses_of(cluster.effective_bootstrap)
    with BlockingCluster(
        bootstrap, client_id="ottla-cli", request_timeout_s=REQUEST_TIMEOUT_S
    ) as client:
        try:
            asked = {
                broker.id: client.begin(
                    DescribeLogDirsRequest(topics=None),
                    DescribeLogDirsResponse,
                    node=Node(broker.id, broker.host, broker.port),
                )
                for broker in brokers
            }
            answers = {broker_id: in_flight.wait() for broker_id, in_flight in asked.items()}
        except (ClientError, KafkaError):
            return None
    for broker_id, answer in answers.items():
        if answer.error_code:
            return None
        found += [
            Replica(broker_id, topic.name, part.partition_index, part.partition_size)
            for log_dir in answer.results
            for topic in log_dir.topics
            for part in topic.partitions
        ]
    return found


def sizes_by_topic(replicas: Iterable[Replica]) -> dict[str, int]:
    """All copies together."""
    sizes: dict[str, int] = {}
    for replica in replicas:
        sizes[replica.topic] = sizes.get(replica.topic, 0) + replica.size_bytes
    return sizes
