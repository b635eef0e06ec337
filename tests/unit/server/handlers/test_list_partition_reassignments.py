from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.server.handlers.list_partition_reassignments import handle
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.controller_services import asked_in, services_of
from tests.unit.controller.brokers import SimulatedCluster, run

Found = dict[tuple[str, int], tuple[list[int], list[int], list[int]]]


async def ask(cluster: SimulatedCluster, partitions: dict[str, list[int]] | None) -> Found:
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in partitions.items()
        ]
    request = ListPartitionReassignmentsRequest(topics=topics)
    response = await handle(services_of(cluster, 1), request, asked_in(0))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return {
        (topic.name, each.partition_index): (
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in response.topics
        for each in topic.partitions
    }


def test_what_moves_is_told_with_where_from_and_where_to() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2), (1, 2), (1, 2))
        await cluster.create("u", (1, 2))
        assert await ask(cluster, None) == {}
        moved: dict[TopicPartition, list[int] | None] = {
            TopicPartition("t", 0): [2, 3],
            TopicPartition("t", 2): [1, 2, 3],
            TopicPartition("u", 0): [3],
        }
        await cluster.active.controller.alter_reassignments(moved)
        there: Found = {
            ("t", 0): ([2, 3, 1], [3], [1]),
            ("t", 2): ([1, 2, 3], [3], []),
            ("u", 0): ([3, 1, 2], [3], [1, 2]),
        }
        assert await ask(cluster, None) == there
        some = await ask(cluster, {"t": [0, 1, 9], "missing": [0]})
        assert some == {("t", 0): there["t", 0]}
        assert await ask(cluster, {}) == {}

    run(scenario)


def test_another_broker_says_that_it_is_not_the_controller() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        services = services_of(cluster, 2)
        response = await handle(services, ListPartitionReassignmentsRequest(), asked_in(0))
        assert (response.error_code, response.topics) == (ErrorCode.NOT_CONTROLLER, [])
        assert response.error_message

    run(scenario)
