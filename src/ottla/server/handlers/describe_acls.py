"""DescribeAcls: there is no authorizer yet, and so Kafka's answer without one."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER = "No Authorizer is configured."


def handle(
    services: Services, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
