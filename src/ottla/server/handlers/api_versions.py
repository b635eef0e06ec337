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
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

CLIENT_SOFTWARE_SINCE = 3
FEATURES_FROM_ZERO_SINCE = 4

FEATURES = {"group.version": 1, "transaction.version": 2}
"""What the cluster can do beyond the versions of its APIs, each at its newest level and, in a
cluster where all brokers are alike, in force. Producers of Kafka 4 go by the second: at 2 each
transaction ends with a new epoch, and partitions join it with their first write (KIP-890)."""

FEATURES_EPOCH = 0
"""The features in force never change. Java takes no notice of them when this is below 0."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: Services, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    if context.api_version >= CLIENT_SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[listed(key) for key in ANSWERED],
        # Older clients choke on a lowest version of 0 (KAFKA-17011), which all of these have.
        supported_features=[
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
            if context.api_version >= FEATURES_FROM_ZERO_SINCE
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )


def listed(key: ApiKey) -> ApiVersion:
    versions = APIS[key].advertised_versions
    return ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
