from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.server.handlers.alter_partition_reassignments import handle
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.controller_services import asked_in, services_of
from tests.unit.controller.brokers import SimulatedCluster, run

Wanted = dict[tuple[str, int], list[int] | None]


async def ask(
    cluster: SimulatedCluster,
    wanted: Wanted,
    *,
    at: int = 1,
    version: int = 1,
    allows_factor_change: bool = True,
) -> AlterPartitionReassignmentsResponse:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allows_factor_change,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=number, replicas=replicas)],
            )
            for (name, number), replicas in wanted.items()
        ],
    )
    return await handle(services_of(cluster, at), request, asked_in(version))


def codes(response: AlterPartitionReassignmentsResponse) -> dict[tuple[str, int], ErrorCode]:
    for topic in response.responses:
        for each in topic.partitions:
            assert (each.error_message is None) == (each.error_code == ErrorCode.NONE)
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in response.responses
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_begins_to_move_and_is_cancelled(version: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        for replicas in ([2, 3], None):
            response = await ask(cluster, {("t", 0): replicas}, version=version)
            assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
            assert codes(response) == {("t", 0): ErrorCode.NONE}
            found = await cluster.active.controller.list_reassignments(None)
            assert len(found) == (0 if replicas is None else 1)

    run(scenario)


def test_each_partition_is_answered_by_itself() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", *[(1, 2)] * 6)
        wanted: Wanted = {
            ("t", 0): [2, 3],
            ("t", 1): [],
            ("t", 2): [2, 2],
            ("t", 3): [2, 9],
            ("t", 4): [-1],
            ("t", 5): None,
            ("t", 6): [1],
            ("missing", 0): [1],
        }
        assert codes(await ask(cluster, wanted)) == {
            ("t", 0): ErrorCode.NONE,
            ("t", 1): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ("t", 2): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ("t", 3): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ("t", 4): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ("t", 5): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ("t", 6): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    run(scenario)


def test_the_replication_factor_is_kept_where_that_is_asked_for() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2), (1, 2))
        wanted: Wanted = {("t", 0): [1, 2, 3], ("t", 1): [2, 3]}
        response = await ask(cluster, wanted, allows_factor_change=False)
        assert not response.allow_replication_factor_change
        assert codes(response) == {
            ("t", 0): ErrorCode.INVALID_REPLICATION_FACTOR,
            ("t", 1): ErrorCode.NONE,
        }
        # While it moves, it is the factor of where it moves to that counts.
        response = await ask(cluster, {("t", 1): [1, 3]}, allows_factor_change=False)
        assert codes(response) == {("t", 1): ErrorCode.NONE}
        assert codes(await ask(cluster, wanted)) == dict.fromkeys(wanted, ErrorCode.NONE)
        # Back is always allowed.
        response = await ask(cluster, {("t", 0): None}, allows_factor_change=False)
        assert codes(response) == {("t", 0): ErrorCode.NONE}

    run(scenario)


def test_another_broker_says_that_it_is_not_the_controller() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        response = await ask(cluster, {("t", 0): [2, 3]}, at=2)
        assert response.error_code == ErrorCode.NOT_CONTROLLER
        assert response.error_message
        # Java's client looks there, whatever the error is.
        assert codes(response) == {("t", 0): ErrorCode.NOT_CONTROLLER}

    run(scenario)
