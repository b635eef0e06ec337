from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.cluster_image import join_cluster
from tests.support.simulated_broker import SimulatedBroker, with_broker


async def describe(
    broker: SimulatedBroker, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    return await broker.call(request, DescribeTopicPartitionsResponse)


def seen(response: DescribeTopicPartitionsResponse) -> dict[str | None, list[int]]:
    return {
        topic.name: [partition.partition_index for partition in topic.partitions]
        for topic in response.topics
    }


def test_what_is_told_of_a_topic() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        (topic,) = (await describe(broker, "t")).topics
        assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, topic_id)
        assert topic.topic_authorized_operations == 0b1101_1111_1000
        (partition,) = topic.partitions
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
        assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])

    with_broker(test)


def test_leaders_of_a_cluster() -> None:
    """A partition has no error, as with Kafka: that it has no leader says enough."""

    async def test(broker: SimulatedBroker) -> None:
        join_cluster(broker, {0: 1, 1: 2, 2: 3, 3: -1})
        (topic,) = (await describe(broker, "t")).topics
        leaders = [(each.error_code, each.leader_id) for each in topic.partitions]
        assert leaders == [(0, 1), (0, -1), (0, -1), (0, -1)]
        for partition in topic.partitions:
            assert partition.leader_epoch == 5
            assert (partition.replica_nodes, partition.isr_nodes) == ([3, 2, 1, 4], [2, 1])
            assert partition.offline_replicas == [3, 2, 4]
            assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([4], [3])

    with_broker(test)


def test_topics_come_in_the_order_of_names_and_all_when_none_is_named() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name in ("b", "c", "a"):
            await broker.create_topic(name)
        assert list(seen(await describe(broker))) == ["a", "b", "c"]
        assert list(seen(await describe(broker, "c", "a", "c"))) == ["a", "c"]

    with_broker(test)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 0, -1])
def test_pages_together_are_the_whole(limit: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name, count in (("a", 3), ("b", 1), ("c", 2)):
            await broker.create_topic(name, count)
        pages: list[tuple[str | None, int]] = []
        cursor: Cursor | None = None
        while True:
            response = await describe(broker, limit=limit, cursor=cursor)
            page = [(name, index) for name, found in seen(response).items() for index in found]
            assert 1 <= len(page) <= max(1, limit)
            pages += page
            cursor = response.next_cursor
            if cursor is None:
                break
        assert pages == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]

    with_broker(test)


def test_a_page_is_never_longer_than_the_broker_allows() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 6)
        response = await describe(broker, "t", limit=10_000)
        assert seen(response) == {"t": [0, 1, 2, 3, 4]}
        assert response.next_cursor == Cursor(topic_name="t", partition_index=5)

    with_broker(test, max_request_partition_size_limit="5")


def test_names_that_are_none_are_told_and_take_no_room() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        response = await describe(broker, "missing", "a b", "t", limit=1)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", ErrorCode.NONE),
        ]

    with_broker(test)


@pytest.mark.parametrize(("name", "index"), [("t", -1), ("other", 0)])
def test_a_cursor_that_does_not_fit_its_request_is_refused(name: str, index: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        cursor = Cursor(topic_name=name, partition_index=index)
        (topic,) = (await describe(broker, "t", cursor=cursor)).topics
        assert (topic.name, topic.error_code) == ("t", ErrorCode.INVALID_REQUEST)

    with_broker(test)


def test_a_cursor_may_stand_where_nothing_is_any_more() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("b")
        for cursor, expected in (
            (Cursor(topic_name="a", partition_index=5), {"b": [0]}),
            (Cursor(topic_name="b", partition_index=5), {"b": []}),
            (Cursor(topic_name="c", partition_index=0), {}),
        ):
            response = await describe(broker, cursor=cursor)
            assert (seen(response), response.next_cursor) == (expected, None)

    with_broker(test)
