from __future__ import annotations

from typing import Any

import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_topics import (
    ConfigEntry,
    add_partitions,
    alter_configs,
    create_topics,
    describe_cluster,
    describe_configs,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.socket_broker import SocketBroker


def cluster_of(broker: SocketBroker, *leaders: list[int]) -> BlockingCluster:
    """Each answer about the topic `clicks` has the next leaders of its partitions."""
    remaining = list(leaders)

    def metadata(request: MetadataRequest) -> Any:
        topics = []
        if request.topics:
            found = remaining.pop(0)
            partitions = [
                MetadataResponsePartition(partition_index=index, leader_id=leader)
                for index, leader in enumerate(found)
            ]
            topics = [MetadataResponseTopic(name="clicks", partitions=partitions)]
        return broker.metadata(cluster_id="my-cluster", controller_id=1, topics=topics)

    broker.answers[MetadataRequest] = metadata
    return BlockingCluster(broker.bootstrap, retry_timeout_s=20.0)


def test_a_cluster_has_an_id_and_brokers() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        found = describe_cluster(cluster)
        assert (found.cluster_id, [node.port for node in found.brokers]) == (
            "my-cluster",
            [broker.port],
        )
        assert found.controller == found.brokers[0]
        broker.answers[MetadataRequest] = lambda _: broker.metadata(cluster_id=None)
        with pytest.raises(KafkaError, match="has no id"):
            describe_cluster(cluster)


def test_a_topic_is_there_when_all_its_partitions_are_led() -> None:
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.TOPIC_ALREADY_EXISTS]
    with SocketBroker() as broker, cluster_of(broker, [1], [1, -1], [1, 1]) as cluster:
        broker.answers[CreateTopicsRequest] = lambda _: CreateTopicsResponse(
            topics=[CreatableTopicResult(name="clicks", error_code=codes.pop(0))]
        )
        create_topics(cluster, {"clicks": 2})
        create_topics(cluster, {})
        _, request = broker.requests(CreateTopicsRequest)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("clicks", 2, -1)


def test_what_a_broker_refuses_is_said_with_its_reason() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        refused = CreatableTopicResult(
            name="clicks", error_code=ErrorCode.POLICY_VIOLATION, error_message="too many"
        )
        broker.answers[CreateTopicsRequest] = lambda _: CreateTopicsResponse(topics=[refused])
        with pytest.raises(KafkaError, match="creating clicks: too many"):
            create_topics(cluster, {"clicks": 2})


def test_partitions_are_added_up_to_a_count() -> None:
    code = 0
    with SocketBroker() as broker, cluster_of(broker, [1, 1, 1], [1, 1, 1]) as cluster:
        broker.answers[CreatePartitionsRequest] = lambda _: CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(name="clicks", error_code=code)]
        )
        add_partitions(cluster, {"clicks": 3})
        code = ErrorCode.INVALID_PARTITIONS  # a try whose answer was lost had added them
        add_partitions(cluster, {"clicks": 3})
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError, match="adding partitions to clicks: TOPIC_AUTHORIZATION"):
            add_partitions(cluster, {"clicks": 3})
        assert broker.requests(CreatePartitionsRequest)[0].topics[0].count == 3


def test_settings_are_told_with_whether_the_topic_has_them() -> None:
    entries = [
        DescribeConfigsResourceResult(name="retention.ms", value="7", config_source=1),
        DescribeConfigsResourceResult(name="cleanup.policy", value="delete", config_source=5),
    ]
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_name="clicks", configs=entries)]
        )
        assert describe_configs(cluster, ["clicks"]) == {
            "clicks": {
                "retention.ms": ConfigEntry("7", True),
                "cleanup.policy": ConfigEntry("delete", False),
            }
        }
        assert describe_configs(cluster, []) == {}


def test_settings_are_set_and_given_back() -> None:
    code = 0
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[IncrementalAlterConfigsRequest] = lambda _: IncrementalAlterConfigsResponse(
            responses=[AlterConfigsResourceResponse(resource_name="clicks", error_code=code)]
        )
        alter_configs(cluster, {"clicks": {"retention.ms": "7", "segment.ms": None}})
        (request,) = broker.requests(IncrementalAlterConfigsRequest)
        asked = [
            (one.name, one.config_operation, one.value) for one in request.resources[0].configs
        ]
        assert asked == [("retention.ms", 0, "7"), ("segment.ms", 1, None)]
        code = ErrorCode.INVALID_CONFIG
        with pytest.raises(KafkaError, match=r"setting retention\.ms of topic clicks"):
            alter_configs(cluster, {"clicks": {"retention.ms": "seven"}})
