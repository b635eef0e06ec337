"""CreateAcls: refused while there is no authorizer."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.handlers.describe_acls import NO_AUTHORIZER
from ottla.server.services import Services
from ottla.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def handle(
    services: Services, request: CreateAclsRequest, context: RequestContext
) -> CreateAclsResponse:
    slices = Slices(services.clock)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            async for _ in slices.of(request.creations)
        ]
    )
