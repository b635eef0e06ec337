from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.cluster_image import join_cluster
from tests.support.simulated_broker import SimulatedBroker, with_broker

GROUP, TRANSACTION = 0, 1
NEWEST = 6


@pytest.mark.parametrize("version", [0, 1, 3])
def test_one_key(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = FindCoordinatorRequest(key="g")
        response = await broker.call(request, FindCoordinatorResponse, version)
        assert response.error_code == ErrorCode.NONE
        assert (response.node_id, response.host, response.port) == (7, "localhost", 9092)

    with_broker(test, broker_id="7")


@pytest.mark.parametrize("version", [4, NEWEST])
def test_several_keys(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        for key_type in (GROUP, TRANSACTION):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
            response = await broker.call(request, FindCoordinatorResponse, version)
            assert [one.key for one in response.coordinators] == ["a", "b"]
            for one in response.coordinators:
                assert one.error_code == ErrorCode.NONE
                assert (one.node_id, one.host, one.port) == (7, "localhost", 9092)

    with_broker(test, broker_id="7")


def test_keys_of_a_kind_that_is_not_there_are_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = FindCoordinatorRequest(key_type=9, coordinator_keys=["a"])
        (one,) = (await broker.call(request, FindCoordinatorResponse)).coordinators
        assert (one.key, one.error_code) == ("a", ErrorCode.INVALID_REQUEST)
        assert (one.node_id, one.host, one.port) == (-1, "", -1)
        old = FindCoordinatorRequest(key="a", key_type=9)
        response = await broker.call(old, FindCoordinatorResponse, 2)
        assert (response.error_code, response.node_id) == (ErrorCode.INVALID_REQUEST, -1)

    with_broker(test)


def test_an_empty_transactional_id_has_a_coordinator_too() -> None:
    """As with Kafka; it is InitProducerId that refuses it."""

    async def test(broker: SimulatedBroker) -> None:
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["", "a"])
        response = await broker.call(request, FindCoordinatorResponse)
        codes = [one.error_code for one in response.coordinators]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE]

    with_broker(test)


def test_each_listener_tells_of_itself() -> None:
    async def test(broker: SimulatedBroker) -> None:
        connection = await broker.connect(9093)
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        response = await connection.call(request, FindCoordinatorResponse, NEWEST)
        assert (response.coordinators[0].host, response.coordinators[0].port) == ("far", 19093)

    with_broker(
        test,
        listeners="IN://localhost:9092,OUT://localhost:9093",
        advertised_listeners="IN://localhost:9092,OUT://far:19093",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
        inter_broker_listener_name="IN",
    )


@pytest.mark.parametrize(
    ("leader", "why"),
    [
        (-1, "__consumer_offsets-0 has no leader now"),
        (2, "__consumer_offsets-0 is led by broker 2, which cannot be reached by listener"),
        (3, "__consumer_offsets-0 is led by broker 3, which cannot be reached by listener"),
    ],
)
def test_a_coordinator_that_cannot_be_reached_is_not_available(leader: int, why: str) -> None:
    async def test(broker: SimulatedBroker) -> None:
        join_cluster(broker, {0: leader}, "__consumer_offsets")
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        (one,) = (await broker.call(request, FindCoordinatorResponse)).coordinators
        assert (one.error_code, one.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert why in (one.error_message or "")

    with_broker(test)


def test_a_coordinator_on_another_broker_is_found() -> None:
    async def test(broker: SimulatedBroker) -> None:
        join_cluster(broker, {0: 4}, "__consumer_offsets")
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        (one,) = (await broker.call(request, FindCoordinatorResponse)).coordinators
        assert (one.error_code, one.node_id) == (ErrorCode.NONE, 4)
        assert (one.host, one.port) == ("host4", 9092)

    with_broker(test)


def test_a_key_that_is_asked_for_many_times_is_answered_once() -> None:
    """Else one short key, half a million times, is answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        request = FindCoordinatorRequest(coordinator_keys=[*["a"] * 1000, "b", "a"])
        found = (await broker.call(request, FindCoordinatorResponse)).coordinators
        assert [one.key for one in found] == ["a", "b"]

    with_broker(test)
