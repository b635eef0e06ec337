from __future__ import annotations

import socket

import pytest

from ottla.client.blocking import BrokerUnreachable, ConnectionLost, GaveUp
from ottla.client.blocking_cluster import (
    GROUP_COORDINATOR,
    LATEST,
    BlockingCluster,
    OffsetAndTimestamp,
    Topic,
)
from ottla.client.cluster import TRANSACTION_COORDINATOR, Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.errors import CorruptRecord
from ottla.wire.api import ApiKey
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.socket_broker import HOST, TOPIC_ID, SocketBroker

CLICKS = TopicPartition("clicks", 0)


def client(broker: SocketBroker, **options: float) -> BlockingCluster:
    return BlockingCluster(broker.bootstrap, **{"retry_timeout_s": 20.0, **options})  # type: ignore[arg-type]


def closed_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_topics_by_name_and_by_id() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        topic = cluster.topics(["clicks"])["clicks"]
        assert (topic.topic_id, sorted(topic.partitions)) == (TOPIC_ID, [0, 1])
        assert cluster.topics_by_id([TOPIC_ID])[TOPIC_ID] == topic
        assert cluster.topics(None) == {"clicks": topic}
        requests = broker.requests(MetadataRequest)
        assert not any(request.allow_auto_topic_creation for request in requests)
        assert cluster.topics([]) == {}


def test_a_topic_that_is_not_there_is_left_out() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        absent = MetadataResponseTopic(name="gone", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        broker.answers[MetadataRequest] = lambda _: broker.metadata(topics=[absent])
        assert cluster.topics(["gone"]) == {}


def test_topics_by_id_need_a_broker_that_knows_them() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        broker.versions[ApiKey.METADATA] = range(10)
        with pytest.raises(KafkaError, match=r"older than Kafka 3\.1"):
            cluster.topics_by_id([TOPIC_ID])


def test_a_leader_is_remembered_until_something_fails() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        for _ in range(2):
            topic, node, leader_epoch = cluster.leader(CLICKS)
            assert (topic.name, node, leader_epoch) == ("clicks", Node(1, HOST, broker.port), 3)
        assert len(broker.asked) == 1

        failures = [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

        def attempt() -> Topic:
            if failures:
                raise failures.pop()
            return cluster.leader(CLICKS)[0]

        assert cluster.retrying("a test", attempt).name == "clicks"
        assert len(broker.asked) == 2


def test_a_partition_without_a_leader_is_waited_for() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        leaders = iter((-1, -1, 1))

        def metadata(_: MetadataRequest) -> object:
            partition = MetadataResponsePartition(partition_index=0, leader_id=next(leaders))
            topic = MetadataResponseTopic(name="clicks", topic_id=TOPIC_ID, partitions=[partition])
            return broker.metadata(topics=[topic])

        broker.answers[MetadataRequest] = metadata  # type: ignore[assignment]
        with pytest.raises(KafkaError, match="clicks-0 has no leader"):
            cluster.leader(CLICKS)
        cluster.forget()
        _, node, _ = cluster.retrying("a test", lambda: cluster.leader(CLICKS))
        assert node.port == broker.port
        with pytest.raises(KafkaError, match="has 1 partitions, 7 is none"):
            cluster.leader(TopicPartition("clicks", 7))


def test_a_broker_that_is_away_is_waited_for_and_then_named() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        cluster.topics(["clicks"])
        broker.drop_connections()
        assert "clicks" in cluster.topics(["clicks"])

    nobody = BlockingCluster(
        [(HOST, closed_port())], retry_timeout_s=0.2, retry_option="retryTimeoutMs"
    )
    with pytest.raises(GaveUp) as raised:
        nobody.topics(["clicks"])
    assert "retryTimeoutMs" in str(raised.value)
    assert f"bootstrap.servers is {nobody.bootstrap_servers}" in str(raised.value)
    assert "Connection refused" in str(raised.value)
    assert isinstance(raised.value.__cause__, BrokerUnreachable)


def test_the_next_address_is_tried() -> None:
    with (
        SocketBroker() as broker,
        BlockingCluster([(HOST, closed_port()), *broker.bootstrap]) as cluster,
    ):
        assert "clicks" in cluster.topics(["clicks"])


@pytest.mark.parametrize(
    "problem", [KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), CorruptRecord("bytes")]
)
def test_what_no_waiting_mends_is_raised_at_once(problem: KafkaError) -> None:
    calls = []

    def attempt() -> None:
        calls.append(1)
        raise problem

    with SocketBroker() as broker, client(broker) as cluster:
        with pytest.raises(KafkaError) as raised:
            cluster.retrying("a test", attempt)
        assert raised.value is problem
        assert len(calls) == 1


def test_giving_up_says_what_the_broker_said() -> None:
    def attempt() -> None:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "two are needed")

    with SocketBroker() as broker, client(broker, retry_timeout_s=0.2) as cluster:
        with pytest.raises(GaveUp, match="NOT_ENOUGH_REPLICAS: two are needed") as raised:
            cluster.retrying("writing clicks-0", attempt)
        assert raised.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert "writing clicks-0" in str(raised.value)


def test_a_request_to_a_connection_that_was_cut_can_be_made_again() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        answers = [None, broker.metadata()]
        broker.answers[MetadataRequest] = lambda _: answers.pop(0)
        with pytest.raises(ConnectionLost):
            cluster.leader(CLICKS)
        cluster.leader(CLICKS)
        assert len(broker.connections) == 2


def test_offsets_come_from_leaders_and_failed_ones_are_asked_again() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        codes = {0: [ErrorCode.NONE], 1: [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]}

        def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
            (topic,) = request.topics
            found = [
                ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index,
                    error_code=codes[asked.partition_index].pop(0),
                    offset=10 + asked.partition_index,
                )
                for asked in topic.partitions
            ]
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name=topic.name, partitions=found)]
            )

        broker.answers[ListOffsetsRequest] = answer
        wanted = {TopicPartition("clicks", index): LATEST for index in range(2)}
        assert cluster.list_offsets(wanted) == {
            TopicPartition("clicks", index): OffsetAndTimestamp(10 + index, -1, -1)
            for index in range(2)
        }
        requests = broker.requests(ListOffsetsRequest)
        assert [len(request.topics[0].partitions) for request in requests] == [2, 1]
        assert {request.isolation_level for request in requests} == {1}


@pytest.mark.parametrize("is_old", [False, True])
def test_coordinators_of_groups_and_transactional_ids(is_old: bool) -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        if is_old:
            broker.versions[ApiKey.FIND_COORDINATOR] = range(4)

        def answer(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            if is_old:
                assert request.key == "mine"
                return FindCoordinatorResponse(node_id=1, host=HOST, port=broker.port)
            assert request.coordinator_keys == ["mine"]
            found = Coordinator(key="mine", node_id=1, host=HOST, port=broker.port)
            return FindCoordinatorResponse(coordinators=[found])

        broker.answers[FindCoordinatorRequest] = answer
        for kind in (GROUP_COORDINATOR, TRANSACTION_COORDINATOR, GROUP_COORDINATOR):
            assert cluster.coordinator(kind, "mine") == Node(1, HOST, broker.port)
        kinds = [request.key_type for request in broker.requests(FindCoordinatorRequest)]
        assert kinds == [GROUP_COORDINATOR, TRANSACTION_COORDINATOR]


def test_a_coordinator_that_is_not_there_yet_is_an_error_to_retry() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.answers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
            coordinators=[Coordinator(key="mine", error_code=code, error_message=None)]
        )
        with pytest.raises(KafkaError, match="transactional id mine") as raised:
            cluster.coordinator(TRANSACTION_COORDINATOR, "mine")
        assert raised.value.code == code


def test_features_that_the_cluster_has_agreed_on() -> None:
    with SocketBroker() as broker, client(broker) as cluster:
        assert cluster.finalized_feature("transaction.version") == 2
        assert cluster.finalized_feature("metadata.version") == 0
