from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.support.cluster_image import join_cluster
from tests.support.simulated_broker import SimulatedBroker, with_broker

CONTROLLERS = 2
NOT_ASKED = -0x8000_0000


@pytest.mark.parametrize("version", [0, 1, 2])
def test_brokers_controller_and_id(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        response = await broker.call(DescribeClusterRequest(), DescribeClusterResponse, version)
        assert response.error_code == ErrorCode.NONE
        assert len(response.cluster_id) == 22
        assert response.controller_id == 7
        (node,) = response.brokers
        assert (node.broker_id, node.host, node.port) == (7, "localhost", 9092)
        assert (node.rack, node.is_fenced) == ("here", False)
        assert response.cluster_authorized_operations == NOT_ASKED

    with_broker(test, broker_id="7", broker_rack="here")


def test_brokers_that_the_client_can_reach_are_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        join_cluster(broker, {0: 1})
        response = await broker.call(DescribeClusterRequest(), DescribeClusterResponse)
        assert [each.broker_id for each in response.brokers] == [1, 4]
        assert response.controller_id == 2

    with_broker(test)


def test_the_id_is_kept() -> None:
    async def test(broker: SimulatedBroker) -> None:
        first = await broker.call(DescribeClusterRequest(), DescribeClusterResponse)
        await broker.restart()
        second = await broker.call(DescribeClusterRequest(), DescribeClusterResponse)
        assert first.cluster_id == second.cluster_id

    with_broker(test)


def test_without_authorizer_everything_is_allowed_to_who_asks() -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await broker.call(request, DescribeClusterResponse)
        assert response.cluster_authorized_operations == 0b1_1111_1010_0000

    with_broker(test)


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (CONTROLLERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_brokers_are_here(endpoint_type: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = DescribeClusterRequest(endpoint_type=endpoint_type)
        response = await broker.call(request, DescribeClusterResponse)
        assert (response.error_code, response.brokers) == (code, [])
        assert response.error_message

    with_broker(test)
