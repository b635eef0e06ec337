from __future__ import annotations

import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_reassignments import (
    Reassignment,
    alter_reassignments,
    list_reassignments,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.messages.metadata import MetadataRequest
from tests.support.socket_broker import SocketBroker

CLICKS_0, CLICKS_1 = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def cluster_of(broker: SocketBroker) -> BlockingCluster:
    broker.answers[MetadataRequest] = lambda _: broker.metadata(cluster_id="c", controller_id=1)
    return BlockingCluster(broker.bootstrap, retry_timeout_s=20.0)


def test_what_goes_on() -> None:
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]

    def answer(_: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
        part = OngoingPartitionReassignment(
            partition_index=0, replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1]
        )
        topics = [OngoingTopicReassignment(name="clicks", partitions=[part])]
        return ListPartitionReassignmentsResponse(error_code=codes.pop(0), topics=topics)

    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[ListPartitionReassignmentsRequest] = answer
        found = list_reassignments(cluster)
        assert found == {CLICKS_0: Reassignment((3, 2, 1), (3,), (1,))}
        assert (found[CLICKS_0].origin, found[CLICKS_0].target) == ((2, 1), (3, 2))


def test_what_is_begun_cancelled_and_refused() -> None:
    def answer(_: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        parts = [
            ReassignablePartitionResponse(partition_index=0),
            ReassignablePartitionResponse(
                partition_index=1, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            ),
        ]
        topics = [ReassignableTopicResponse(name="clicks", partitions=parts)]
        return AlterPartitionReassignmentsResponse(responses=topics)

    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[AlterPartitionReassignmentsRequest] = answer
        assert alter_reassignments(cluster, {}) == {}
        refused = alter_reassignments(cluster, {CLICKS_0: (3, 2), CLICKS_1: None})
        assert {each: why.code for each, why in refused.items()} == {
            CLICKS_1: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        }
        (request,) = broker.requests(AlterPartitionReassignmentsRequest)
        (topic,) = request.topics
        assert [part.replicas for part in topic.partitions] == [[3, 2], None]


def test_a_refusal_of_all() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[ListPartitionReassignmentsRequest] = lambda _: (
            ListPartitionReassignmentsResponse(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="not you"
            )
        )
        with pytest.raises(KafkaError, match="not you"):
            list_reassignments(cluster)
