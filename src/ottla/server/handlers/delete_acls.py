"""DeleteAcls: refused while there is no authorizer."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.handlers.describe_acls import NO_AUTHORIZER
from ottla.server.services import Services
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(
    services: Services, request: DeleteAclsRequest, context: RequestContext
) -> DeleteAclsResponse:
    slices = Slices(services.clock)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=ErrorCode.SECURITY_DISABLED,
                error_message=NO_AUTHORIZER,
                matching_acls=[],
            )
            async for _ in slices.of(request.filters)
        ]
    )
