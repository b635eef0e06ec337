"""What the cluster says of transactions, put together. tests/compat asks brokers."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.errors import Failure
from ottla.cli.transactions import read
from ottla.cli.transactions.read import (
    Producer,
    described_transaction,
    listed_transactions,
    located_partitions,
    producers_in,
    run,
    transactions_of,
)
from ottla.client.cluster import ClusterClient, Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from tests.support.scripted_cluster import FIRST_PORT
from tests.unit.cli.transactions.fake_cluster import NOW_MS, FakeCluster, producer, transaction

NODES = {id: Node(id, "localhost", FIRST_PORT + id) for id in (1, 2)}


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster()


def test_every_broker_is_asked_for_what_it_coordinates(fake: FakeCluster) -> None:
    fake.transactions = [transaction("b", 7, "Ongoing"), transaction("a", 8, "Empty")]

    found = fake.run(lambda client: listed_transactions(client, ListTransactionsRequest()))

    assert found == [
        {"transactional_id": "a", "coordinator_id": 2, "producer_id": 8, "state": "Empty"},
        {"transactional_id": "b", "coordinator_id": 2, "producer_id": 7, "state": "Ongoing"},
    ]
    assert len(fake.listings) == 2


def test_a_coordinator_that_is_loading_is_waited_for(fake: FakeCluster) -> None:
    fake.list_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3

    assert fake.run(lambda client: listed_transactions(client, ListTransactionsRequest())) == []
    assert len(fake.listings) == 5


def test_a_coordinator_that_does_not_come_is_not_waited_for_for_ever(fake: FakeCluster) -> None:
    fake.list_errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000

    with pytest.raises(KafkaError, match="broker 1 lists nothing"):
        fake.run(lambda client: listed_transactions(client, ListTransactionsRequest()))
    assert 10 < len(fake.listings) < 1000


def test_an_error_is_not_asked_for_again(fake: FakeCluster) -> None:
    fake.list_errors = [ErrorCode.INVALID_REGULAR_EXPRESSION] * 2

    with pytest.raises(KafkaError) as raised:
        fake.run(lambda client: listed_transactions(client, ListTransactionsRequest()))
    assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(fake.listings) == 1


def test_a_transaction_in_full(fake: FakeCluster) -> None:
    partitions = [("clicks", 0), ("views", 0)]
    fake.transactions = [
        transaction("pay", 7, "Ongoing", *partitions, started_ms=NOW_MS - 1500),
        transaction("idle", 8, "Empty"),
    ]

    def described(id: str) -> dict[str, Any] | None:
        return fake.run(lambda client: described_transaction(client, id, NOW_MS))

    assert described("pay") == {
        "transactional_id": "pay",
        "state": "Ongoing",
        "coordinator": {"id": 2, "host": "localhost", "port": FIRST_PORT + 2},
        "producer_id": 7,
        "producer_epoch": 3,
        "transaction_timeout_ms": 60_000,
        "start_time_ms": NOW_MS - 1500,
        "duration_ms": 1500,
        "partitions": [{"topic": topic, "partition": number} for topic, number in partitions],
    }
    idle = described("idle")
    assert idle is not None
    assert (idle["start_time_ms"], idle["duration_ms"], idle["partitions"]) == (None, None, [])
    assert described("unknown") is None


def test_transactions_are_found_by_their_producers(fake: FakeCluster) -> None:
    fake.transactions = [transaction("a", 7, "Ongoing"), transaction("b", 8, "Ongoing")]

    found = fake.run(lambda client: transactions_of(client, [9, 8, 9], NOW_MS))

    assert {id: one["transactional_id"] for id, one in found.items()} == {8: "b"}
    assert fake.listings[0].producer_id_filters == [8, 9]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {("clicks", 0): 1, ("clicks", 1): 2, ("views", 0): 1}),
        ({"topic": "clicks"}, {("clicks", 0): 1, ("clicks", 1): 2}),
        ({"topic": "clicks", "partition": 1}, {("clicks", 1): 2}),
        ({"broker_id": 1}, {("clicks", 0): 1, ("views", 0): 1}),
        ({"topic": "clicks", "broker_id": 2}, {("clicks", 1): 2}),
    ],
)
def test_partitions_are_asked_about_where_they_are(
    fake: FakeCluster, arguments: dict[str, Any], expected: dict[tuple[str, int], int]
) -> None:
    located, failures = fake.run(lambda client: located_partitions(client, **arguments))

    assert located == {key: NODES[id] for key, id in expected.items()}
    assert failures == {}


def test_a_partition_without_a_leader_cannot_be_asked_about(fake: FakeCluster) -> None:
    fake.leaders["clicks", 1] = -1

    located, failures = fake.run(lambda client: located_partitions(client, "clicks"))

    assert located.keys() == {("clicks", 0)}
    assert failures == {("clicks", 1): "it has no leader"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"topic": "nope"}, "there is no topic 'nope'"),
        ({"topic": "clicc"}, r"there is no topic 'clicc'; did you mean 'clicks'\?"),
        ({"topic": "clicks", "partition": 2}, "there is no partition 2 of 'clicks'"),
        ({"topic": "clicks", "partition": 0, "broker_id": 2}, "0 of 'clicks' on broker 2"),
        ({"broker_id": 5}, "there is no broker 5; there are 1, 2"),
    ],
)
def test_what_is_not_there_is_said(
    fake: FakeCluster, arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(Failure, match=complaint):
        fake.run(lambda client: located_partitions(client, **arguments))


def test_producers_are_asked_for_in_bounded_requests(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "PARTITIONS_ASKED_MAX", 2)
    fake.producers["t", 0] = [producer(7, start_offset=5), producer(8)]
    located = {("t", number): NODES[1] for number in range(5)} | {("u", 0): NODES[2]}

    found, failures = fake.run(lambda client: producers_in(client, located))

    assert found.keys() == located.keys()
    assert failures == {}
    assert found["t", 0] == [
        Producer(7, 3, None, 8, NOW_MS, 5),
        Producer(8, 3, None, 8, NOW_MS, None),
    ]
    assert [(node, len(keys)) for node, keys in fake.producer_requests] == [
        (1, 2),
        (1, 2),
        (1, 1),
        (2, 1),
    ]


def test_why_the_producers_of_a_partition_are_not_known(fake: FakeCluster) -> None:
    fake.producers_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    found, failures = fake.run(lambda client: producers_in(client, {("t", 0): NODES[1]}))

    assert (found, failures) == ({}, {("t", 0): "TOPIC_AUTHORIZATION_FAILED"})


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KafkaError(ErrorCode.UNSUPPORTED_VERSION, "no X"), r"broker is too old for this \(no X\)"),
        (KafkaError(ErrorCode.NOT_COORDINATOR, "moved"), r"^moved \(NOT_COORDINATOR\)$"),
        (KafkaError(ErrorCode.NOT_COORDINATOR), "^NOT_COORDINATOR$"),
        (ConnectionError("lost"), "^b:9092 does not answer: lost$"),
        (TimeoutError(), "^b:9092 does not answer: it took too long$"),
    ],
)
def test_errors_are_told_in_words(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "check_reachable", lambda _: None)

    async def fail(client: ClusterClient) -> None:
        raise error

    with pytest.raises(Failure, match=words):
        run(Cluster("b:9092", {}), fail)


def test_what_it_cannot_speak_is_said() -> None:
    async def nothing(client: ClusterClient) -> None:
        raise AssertionError("nobody may be asked")

    with pytest.raises(Failure, match="cannot speak SASL_SSL yet"):
        run(Cluster("b:9092", {"security.protocol": "SASL_SSL"}), nothing)
