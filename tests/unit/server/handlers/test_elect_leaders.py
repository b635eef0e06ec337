from __future__ import annotations

from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.handlers.elect_leaders import handle
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from tests.support.controller_services import asked_in, services_of
from tests.unit.controller.brokers import SimulatedCluster, run

PREFERRED, UNCLEAN = 0, 1


def election(kind: int, partitions: dict[str, list[int]] | None) -> ElectLeadersRequest:
    topics = None
    if partitions is not None:
        topics = [TopicPartitions(topic=name, partitions=each) for name, each in partitions.items()]
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics)


def codes(response: ElectLeadersResponse) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic, each.partition_id): ErrorCode(each.error_code)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


async def elect(
    cluster: SimulatedCluster,
    partitions: dict[str, list[int]] | None,
    kind: int = PREFERRED,
    version: int = 2,
) -> dict[tuple[str, int], ErrorCode]:
    request = election(kind, partitions)
    response = await handle(services_of(cluster, cluster.active.id), request, asked_in(version))
    assert response.error_code == ErrorCode.NONE
    return codes(response)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_preferred_replica_leads_again(version: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3), (3, 2), (2, 3))
        await cluster.brokers[2].stop()
        await cluster.settle()
        asked: dict[str, list[int]] = {"t": [0, 1, 1, 7], "missing": [0]}
        assert await elect(cluster, asked, version=version) == {
            ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
            ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (await cluster.state("t")).leader == 3

    run(scenario)


def test_an_unclean_election_takes_whoever_is_alive() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2,), (3,))
        assert await elect(cluster, {"t": [0]}, UNCLEAN) == {
            ("t", 0): ErrorCode.ELECTION_NOT_NEEDED
        }
        await cluster.brokers[2].stop()
        await cluster.settle()
        assert await elect(cluster, {"t": [0]}, UNCLEAN) == {
            ("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        }
        # Of all, those that need none are left out.
        assert await elect(cluster, None, UNCLEAN) == {
            ("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        }

    run(scenario)


def test_of_all_partitions_those_are_named_that_have_another_leader_now() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3), (3, 2))
        assert await elect(cluster, None) == {}

    run(scenario)


@pytest.mark.parametrize("version", [0, 2])
def test_what_is_no_kind_of_election_is_refused_as_a_whole(version: int) -> None:
    """A version without an error of the whole says it of each partition."""

    async def scenario(cluster: SimulatedCluster) -> None:
        services = services_of(cluster, 1)
        response = await handle(services, election(7, {"t": [0, 1]}), asked_in(version))
        expected = ErrorCode.INVALID_REQUEST if version else ErrorCode.NONE
        assert response.error_code == expected
        assert set(codes(response).values()) == {ErrorCode.INVALID_REQUEST}
        response = await handle(services, election(7, None), asked_in(version))
        assert (response.error_code, codes(response)) == (expected, {})

    run(scenario)


class Forwarding:
    is_controller = False

    def __init__(self, answer: ElectLeadersResponse | KafkaError) -> None:
        self._answer = answer
        self.asked: list[Any] = []

    async def ask(self, request: Any, response_class: type[Any]) -> ElectLeadersResponse:
        assert response_class is ElectLeadersResponse
        self.asked.append(request)
        if isinstance(self._answer, KafkaError):
            raise self._answer
        return self._answer


def test_another_broker_passes_it_on() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        services = services_of(cluster, 2)
        result = ReplicaElectionResult(
            topic="t", partition_result=[PartitionResult(partition_id=0, error_message=None)]
        )
        answer = ElectLeadersResponse(replica_election_results=[result])
        services.forwarding = forwarding = Forwarding(answer)
        request = election(PREFERRED, {"t": [0]})
        assert await handle(services, request, asked_in(2)) is answer
        assert forwarding.asked == [request]

    run(scenario)


def test_what_was_passed_on_goes_no_further() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        services = services_of(cluster, 2)
        services.forwarding = Forwarding(AssertionError())  # type: ignore[arg-type]
        request = election(PREFERRED, {"t": [0]})
        response = await handle(services, request, asked_in(2, "broker-3-forwarding"))
        assert response.error_code == ErrorCode.NOT_CONTROLLER
        assert codes(response) == {("t", 0): ErrorCode.NOT_CONTROLLER}

    run(scenario)


def test_where_no_controller_can_be_asked_it_is_refused() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        services = services_of(cluster, 2)
        services.forwarding = Forwarding(KafkaError(ErrorCode.NOT_CONTROLLER, "There is none."))
        response = await handle(services, election(PREFERRED, {"t": [0]}), asked_in(2))
        assert response.error_code == ErrorCode.NOT_CONTROLLER

    run(scenario)
