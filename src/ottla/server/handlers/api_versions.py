"""ApiVersions: what this broker speaks. The first thing that most clients ask.

v3 brought flexible fields and features; the response's header stays v0 for ever, so that a
client can read it before it knows what the broker is.
"""

from __future__ import annotations

import re

from ottla.kernel.errors import ErrorCode
from ottla.server.apis import ANSWERED
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

CLIENT_SOFTWARE_SINCE = 3

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: Services, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    if context.api_version >= CLIENT_SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=[listed(key) for key in ANSWERED])


def listed(key: ApiKey) -> ApiVersion:
    versions = APIS[key].advertised_versions
    return ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
