from __future__ import annotations

import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_group_list import ListedGroup, list_consumer_groups
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_groups import ListedGroup as Listed
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest
from tests.support.socket_broker import SocketBroker


def cluster_of(broker: SocketBroker) -> BlockingCluster:
    broker.answers[MetadataRequest] = lambda _: broker.metadata(cluster_id="c", topics=[])
    return BlockingCluster(broker.bootstrap, retry_timeout_s=20.0)


def test_groups_that_read_by_offsets_are_listed_with_their_state() -> None:
    groups = [
        Listed(group_id="reads", protocol_type="consumer", group_state="Stable"),
        Listed(
            group_id="new", protocol_type="consumer", group_state="Empty", group_type="consumer"
        ),
        Listed(group_id="only-commits", protocol_type="", group_state="Empty"),
        Listed(group_id="connect", protocol_type="connect", group_state="Stable"),
        Listed(group_id="share", protocol_type="share", group_state="Stable", group_type="share"),
    ]
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[ListGroupsRequest] = lambda _: ListGroupsResponse(groups=groups)
        found = list_consumer_groups(cluster)
    assert found == {
        "reads": ListedGroup("Stable"),
        "new": ListedGroup("Empty"),
        "only-commits": ListedGroup("Empty"),
    }
    assert [group.is_active for group in found.values()] == [True, False, False]


def test_a_coordinator_that_loads_is_asked_again_and_a_refusal_is_an_error() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[ListGroupsRequest] = lambda _: ListGroupsResponse(error_code=codes.pop(0))
        with pytest.raises(KafkaError, match="listing groups") as refused:
            list_consumer_groups(cluster)
    assert refused.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
