"""Topics and their settings: to ask for them, to make and to change them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.cluster import Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

_TOPIC = 2
"""Among the types of resources."""
_OF_THE_TOPIC = 1
"""Among the sources of settings."""
_SET, _DELETE = 0, 1
_TIMEOUT_MS = 30_000


class ClusterDescription(NamedTuple):
    cluster_id: str
    brokers: list[Node]
    controller: Node | None
    """Who makes topics. With KRaft any broker says that it is the one, and passes them on."""


class ConfigEntry(NamedTuple):
    value: str | None
    """None for one that is not shown, such as a password."""
    is_set: bool
    """On the topic itself: the others come from the broker."""


def describe_cluster(cluster: BlockingCluster) -> ClusterDescription:
    return cluster.retrying("asking for the cluster's id", lambda: _describe(cluster))


def create_topics(cluster: BlockingCluster, partition_counts: Mapping[str, int]) -> None:
    """With the cluster's own replication factor and settings; one that is there stays. Returns when
    all their partitions have leaders."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=count, replication_factor=-1)
            for name, count in partition_counts.items()
        ],
        timeout_ms=_TIMEOUT_MS,
    )

    def attempt() -> None:
        node = _describe(cluster).controller
        for topic in cluster.ask(request, CreateTopicsResponse, node=node).topics:
            if topic.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise _refused(topic.error_code, topic.error_message, f"creating {topic.name}")

    if partition_counts:
        cluster.retrying(f"creating {', '.join(partition_counts)}", attempt)
        _wait_until_led(cluster, partition_counts)


def add_partitions(cluster: BlockingCluster, partition_counts: Mapping[str, int]) -> None:
    """Up to these counts. Returns when all have leaders."""
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in partition_counts.items()
        ],
        timeout_ms=_TIMEOUT_MS,
    )

    def attempt() -> None:
        node = _describe(cluster).controller
        for topic in cluster.ask(request, CreatePartitionsResponse, node=node).results:
            # What it is when there are as many already: the answer to a try before was lost.
            if topic.error_code not in (0, ErrorCode.INVALID_PARTITIONS):
                doing = f"adding partitions to {topic.name}"
                raise _refused(topic.error_code, topic.error_message, doing)

    if partition_counts:
        cluster.retrying(f"adding partitions to {', '.join(partition_counts)}", attempt)
        _wait_until_led(cluster, partition_counts)


def describe_configs(
    cluster: BlockingCluster, topics: Collection[str]
) -> dict[str, dict[str, ConfigEntry]]:
    """All settings of these topics, each by its name."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=topic, configuration_keys=None
            )
            for topic in topics
        ]
    )

    def attempt() -> dict[str, dict[str, ConfigEntry]]:
        found: dict[str, dict[str, ConfigEntry]] = {}
        for topic in cluster.ask(request, DescribeConfigsResponse).results:
            if topic.error_code:
                doing = f"asking for the settings of {topic.resource_name}"
                raise _refused(topic.error_code, topic.error_message, doing)
            found[topic.resource_name] = {
                entry.name: ConfigEntry(entry.value, entry.config_source == _OF_THE_TOPIC)
                for entry in topic.configs
            }
        return found

    return cluster.retrying("asking for settings of topics", attempt) if topics else {}


def alter_configs(
    cluster: BlockingCluster, changes: Mapping[str, Mapping[str, str | None]]
) -> None:
    """Of topics: to these values, or back to the broker's where it is None."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=_TOPIC,
                resource_name=topic,
                configs=[
                    AlterableConfig(
                        name=name,
                        config_operation=_DELETE if value is None else _SET,
                        value=value,
                    )
                    for name, value in values.items()
                ],
            )
            for topic, values in changes.items()
        ]
    )

    def attempt() -> None:
        node = _describe(cluster).controller
        for topic in cluster.ask(request, IncrementalAlterConfigsResponse, node=node).responses:
            if topic.error_code:
                values = changes[topic.resource_name]
                doing = f"setting {', '.join(values)} of topic {topic.resource_name}"
                raise _refused(topic.error_code, topic.error_message, doing)

    if changes:
        cluster.retrying("changing settings of topics", attempt)


def _describe(cluster: BlockingCluster) -> ClusterDescription:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    response = cluster.ask(request, MetadataResponse)
    if response.cluster_id is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the cluster at {cluster.bootstrap_servers} has no id: it is older than Kafka 0.10.1",
        )
    brokers = {one.node_id: Node(one.node_id, one.host, one.port) for one in response.brokers}
    controller = brokers.get(response.controller_id)
    return ClusterDescription(response.cluster_id, list(brokers.values()), controller)


def _wait_until_led(cluster: BlockingCluster, partition_counts: Mapping[str, int]) -> None:
    def attempt() -> None:
        found = cluster.topics(partition_counts)
        for name, count in partition_counts.items():
            partitions = found[name].partitions if name in found else {}
            led = [one for one in partitions.values() if one.leader is not None]
            if len(led) < count:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"{len(led)} of the {count} partitions of {name} have a leader",
                )

    cluster.retrying(f"waiting for leaders of {', '.join(partition_counts)}", attempt)


def _refused(code: int, message: str | None, doing: str) -> KafkaError:
    return KafkaError(ErrorCode(code), f"{doing}: {message or ErrorCode(code).name}")
