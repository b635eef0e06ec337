"""DescribeCluster: the brokers, the controller and the cluster's id (KIP-700).

v1 tells brokers from controllers (there are no separate controllers here), v2 asks for fenced
brokers too (there are none: a broker that cannot serve is not registered).
"""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.server.context import RequestContext
from ottla.server.handlers.metadata import CLUSTER_OPERATIONS
from ottla.server.services import Services
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2


def handle(
    services: Services, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    image = services.image
    if request.endpoint_type == CONTROLLER_ENDPOINTS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKER_ENDPOINTS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id or "",
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker, endpoint in image.endpoints(context.listener_name)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
