from __future__ import annotations

import asyncio

import pytest

from ottla.client.cluster import ClusterClient, Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.api import ApiKey
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.metadata import MetadataRequest
from tests.support.scripted_cluster import FIRST_PORT, ScriptedCluster, run_scripted

NODES = {id: Node(id, "localhost", FIRST_PORT + id) for id in (1, 2)}


def listing(cluster: ScriptedCluster) -> None:
    cluster.answers[ListTransactionsRequest] = lambda node_id, request: ListTransactionsResponse(
        throttle_time_ms=node_id
    )


def test_brokers_are_learned_from_the_first() -> None:
    async def scenario(cluster: ScriptedCluster, client: ClusterClient) -> None:
        assert await client.nodes() == NODES
        assert await client.nodes() == NODES
        ((node_id, request, _),) = cluster.asked
        assert isinstance(request, MetadataRequest)
        assert (node_id, request.topics) == (1, [])
        assert not request.allow_auto_topic_creation

    run_scripted(scenario)


def test_all_topics_or_some_are_asked_for() -> None:
    async def scenario(cluster: ScriptedCluster, client: ClusterClient) -> None:
        await client.metadata(None)
        await client.metadata(["clicks"])
        requests = [request for _, request, _ in cluster.asked]
        assert all(isinstance(request, MetadataRequest) for request in requests)
        topics = [request.topics for request in requests if isinstance(request, MetadataRequest)]
        assert topics[0] is None
        assert [topic.name for topic in topics[1] or []] == ["clicks"]

    run_scripted(scenario)


def test_a_broker_is_asked_over_one_connection() -> None:
    async def scenario(cluster: ScriptedCluster, client: ClusterClient) -> None:
        listing(cluster)
        for node in (NODES[2], NODES[1], NODES[2]):
            answer = await client.ask(
                ListTransactionsRequest(), ListTransactionsResponse, node=node
            )
            assert answer.throttle_time_ms == node.id
        assert [connection.node_id for connection in cluster.connections] == [2, 1]

    run_scripted(scenario)


def test_the_newest_version_that_both_know_is_spoken() -> None:
    async def scenario(cluster: ScriptedCluster, client: ClusterClient) -> None:
        listing(cluster)
        cluster.versions[ApiKey.LIST_TRANSACTIONS] = range(2)
        request = ListTransactionsRequest(duration_filter=5)
        await client.ask(request, ListTransactionsResponse)
        assert cluster.asked == [(1, request, 1)]

        with pytest.raises(KafkaError, match="transactional_id_pattern") as raised:
            await client.ask(
                ListTransactionsRequest(transactional_id_pattern="a"), ListTransactionsResponse
            )
        assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
        await client.ask(request, ListTransactionsResponse)

    run_scripted(scenario)


def test_an_api_that_a_broker_does_not_have_is_an_error() -> None:
    async def scenario(cluster: ScriptedCluster, client: ClusterClient) -> None:
        del cluster.versions[ApiKey.LIST_TRANSACTIONS]
        with pytest.raises(KafkaError, match="does not speak LIST_TRANSACTIONS"):
            await client.ask(ListTransactionsRequest(), ListTransactionsResponse)
        assert cluster.asked == []

    run_scripted(scenario)


def test_a_connection_that_was_lost_is_opened_again() -> None:
    async def scenario(cluster: ScriptedCluster, client: ClusterClient) -> None:
        listing(cluster)
        await client.ask(ListTransactionsRequest(), ListTransactionsResponse)
        cluster.connections[0].transport.close()
        await asyncio.sleep(1)
        await client.ask(ListTransactionsRequest(), ListTransactionsResponse)
        await client.ask(ListTransactionsRequest(), ListTransactionsResponse, node=NODES[1])
        assert [connection.node_id for connection in cluster.connections] == [1, 1]

    run_scripted(scenario)


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async def scenario(cluster: ScriptedCluster, _: ClusterClient) -> None:
        bootstrap = [("localhost", 1), ("localhost", FIRST_PORT + 2)]
        client = ClusterClient(cluster.network, bootstrap)
        assert await client.nodes() == NODES
        client.close()

        nobody = ClusterClient(cluster.network, bootstrap[:1])
        with pytest.raises(OSError, match="1"):
            await nobody.nodes()

    run_scripted(scenario)


def test_the_coordinator_of_a_transactional_id() -> None:
    async def scenario(cluster: ScriptedCluster, client: ClusterClient) -> None:
        codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]

        def answer(node_id: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            assert (request.key_type, request.coordinator_keys) == (1, ["id"])
            found = Coordinator(
                key="id",
                node_id=2,
                host="localhost",
                port=FIRST_PORT + 2,
                error_code=codes.pop(0),
                error_message="wait",
            )
            return FindCoordinatorResponse(coordinators=[found])

        cluster.answers[FindCoordinatorRequest] = answer
        with pytest.raises(KafkaError, match="wait") as raised:
            await client.transaction_coordinator("id")
        assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await client.transaction_coordinator("id") == NODES[2]

    run_scripted(scenario)
