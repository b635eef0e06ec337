from __future__ import annotations

from typing import Any

import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_groups import CommittedOffset, commit_offsets, committed_offsets
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.wire.api import ApiKey
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.support.socket_broker import HOST, SocketBroker

CLICKS = TopicPartition("clicks", 1)


def cluster_of(broker: SocketBroker) -> BlockingCluster:
    found = Coordinator(key="mine", node_id=1, host=HOST, port=broker.port)
    broker.answers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(coordinators=[found])
    return BlockingCluster(broker.bootstrap, retry_timeout_s=20.0)


def fetched(**fields: Any) -> OffsetFetchResponse:
    partitions = [
        OffsetFetchResponsePartitions(
            **{"partition_index": 1, "committed_offset": 7, "metadata": "note", **fields}
        ),
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=-1),
    ]
    topic = OffsetFetchResponseTopics(name="clicks", partitions=partitions)
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="mine", topics=[topic])])


def test_offsets_are_asked_for_until_no_transaction_changes_them() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        answers = [fetched(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT), fetched(), fetched()]
        broker.answers[OffsetFetchRequest] = lambda _: answers.pop(0)
        assert committed_offsets(cluster, "mine", [CLICKS]) == {CLICKS: CommittedOffset(7, "note")}
        assert committed_offsets(cluster, "mine") == {CLICKS: CommittedOffset(7, "note")}
        named, _, every = broker.requests(OffsetFetchRequest)
        assert named.require_stable
        assert [topic.partition_indexes for topic in named.groups[0].topics] == [[1]]
        assert every.groups[0].topics is None


def test_a_broker_that_knows_one_group_a_request() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.versions[ApiKey.OFFSET_FETCH] = range(1, 8)
        one = OffsetFetchResponsePartition(partition_index=1, committed_offset=7)
        topic = OffsetFetchResponseTopic(name="clicks", partitions=[one])
        broker.answers[OffsetFetchRequest] = lambda _: OffsetFetchResponse(topics=[topic])
        assert committed_offsets(cluster, "mine", [CLICKS]) == {CLICKS: CommittedOffset(7)}
        assert committed_offsets(cluster, "mine") == {CLICKS: CommittedOffset(7)}
        named, every = broker.requests(OffsetFetchRequest)
        assert (named.group_id, named.topics[0].name, every.topics) == ("mine", "clicks", None)


def test_a_group_that_one_may_not_read_is_an_error() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        group = OffsetFetchResponseGroup(
            group_id="mine", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        broker.answers[OffsetFetchRequest] = lambda _: OffsetFetchResponse(groups=[group])
        with pytest.raises(KafkaError, match="group mine") as raised:
            committed_offsets(cluster, "mine")
        assert raised.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_commit_is_tried_again_and_its_refusal_told() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]

        def answer(_: OffsetCommitRequest) -> OffsetCommitResponse:
            one = OffsetCommitResponsePartition(partition_index=1, error_code=codes.pop(0))
            topic = OffsetCommitResponseTopic(name="clicks", partitions=[one])
            return OffsetCommitResponse(topics=[topic])

        broker.answers[OffsetCommitRequest] = answer
        commit_offsets(cluster, "mine", {CLICKS: CommittedOffset(7, "note", 3)})
        (partition,) = broker.requests(OffsetCommitRequest)[-1].topics[0].partitions
        assert (partition.committed_offset, partition.committed_metadata) == (7, "note")
        assert partition.committed_leader_epoch == 3
        assert len(broker.requests(FindCoordinatorRequest)) == 2
        with pytest.raises(KafkaError, match="committing clicks-1 for group mine"):
            commit_offsets(cluster, "mine", {CLICKS: CommittedOffset(7)})
        commit_offsets(cluster, "mine", {})
        assert len(broker.requests(OffsetCommitRequest)) == 3
