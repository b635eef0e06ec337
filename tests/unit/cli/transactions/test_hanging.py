"""Which transactions hang, without a cluster. tests/compat has brokers with some that do."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.transactions.hanging import (
    OpenTransaction,
    Search,
    abort_transaction,
    hanging_transactions,
)
from ottla.cli.transactions.read import Producer
from ottla.client.cluster import Node
from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.scripted_cluster import FIRST_PORT
from tests.unit.cli.transactions.fake_cluster import NOW_MS, FakeCluster, producer, transaction

MINUTE_MS = 60_000


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster()


def search(fake: FakeCluster, **options: Any) -> Search:
    where = {"topic": None, "partition": None, "broker_id": None} | options
    return fake.run(
        lambda client: hanging_transactions(
            client, **where, open_longer_than_ms=15 * MINUTE_MS, now_ms=NOW_MS
        )
    )


def test_nobody_asks_coordinators_about_nothing(fake: FakeCluster) -> None:
    fake.producers["clicks", 0] = [producer(7, age_minutes=99)]

    assert search(fake) == Search([], {})
    assert fake.listings == []


def test_a_producer_that_no_coordinator_knows_hangs(fake: FakeCluster) -> None:
    fake.producers["clicks", 1] = [producer(7, start_offset=5, age_minutes=20)]

    found = search(fake)

    assert found.failures == {}
    assert found.hanging == [
        {
            "topic": "clicks",
            "partition": 1,
            "transactional_id": None,
            "producer_id": 7,
            "producer_epoch": 3,
            "coordinator_epoch": None,
            "last_sequence": 8,
            "last_timestamp_ms": NOW_MS - 20 * MINUTE_MS,
            "start_offset": 5,
            "duration_ms": 20 * MINUTE_MS,
        }
    ]


def test_it_hangs_where_its_coordinator_does_not_name_the_partition(fake: FakeCluster) -> None:
    state = producer(7, start_offset=5, age_minutes=20)
    fake.producers = {("clicks", 0): [state], ("views", 0): [state]}
    fake.transactions = [transaction("pay", 7, "Ongoing", ("clicks", 0), ("clicks", 1))]

    (found,) = search(fake).hanging

    assert (found["topic"], found["transactional_id"]) == ("views", "pay")


@pytest.mark.parametrize(("age_minutes", "hangs"), [(14.9, False), (15, False), (15.1, True)])
def test_what_is_young_is_not_suspect(fake: FakeCluster, age_minutes: float, hangs: bool) -> None:
    fake.producers["clicks", 0] = [producer(7, start_offset=5, age_minutes=age_minutes)]

    assert bool(search(fake).hanging) is hangs


def test_what_ends_while_we_look_did_not_hang(fake: FakeCluster) -> None:
    fake.producers["clicks", 0] = [
        producer(7, start_offset=5, age_minutes=20),
        producer(8, start_offset=6, age_minutes=20),
    ]
    answer = fake._list

    def end_it(node_id: int, request: Any) -> Any:
        fake.producers["clicks", 0] = [
            producer(7, start_offset=9, age_minutes=20),  # its next one
            producer(8, start_offset=6, age_minutes=20),
        ]
        return answer(node_id, request)

    fake._list = end_it  # type: ignore[method-assign]
    assert [one["producer_id"] for one in search(fake).hanging] == [8]


def test_what_cannot_be_looked_at_is_told(fake: FakeCluster) -> None:
    fake.leaders["views", 0] = -1
    fake.producers_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    assert search(fake).failures == {
        ("views", 0): "it has no leader",
        ("clicks", 0): "TOPIC_AUTHORIZATION_FAILED",
        ("clicks", 1): "TOPIC_AUTHORIZATION_FAILED",
    }


def test_a_marker_goes_to_the_leader(fake: FakeCluster) -> None:
    one = OpenTransaction("clicks", 1, Producer(7, 3, None, 8, NOW_MS, 5))
    leader = Node(2, "localhost", FIRST_PORT + 2)

    fake.run(lambda client: abort_transaction(client, one, 4, leader))

    (marker,) = fake.markers
    assert (marker.producer_id, marker.producer_epoch) == (7, 3)
    assert (marker.coordinator_epoch, marker.transaction_result) == (4, False)

    fake.marker_error = ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError, match="clicks:1 takes no marker"):
        fake.run(lambda client: abort_transaction(client, one, 4, leader))
