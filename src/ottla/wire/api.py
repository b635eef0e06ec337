"""The APIs that have messages here: their keys, and their request and response classes."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from ottla.wire.schema import Request, Response


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    API_VERSIONS = 18


class Api(NamedTuple):
    key: ApiKey
    request: type[Request]
    response: type[Response]

    @property
    def versions(self) -> range:
        return self.request.VERSIONS


APIS: dict[ApiKey, Api] = {
    ApiKey(request.API_KEY): Api(ApiKey(request.API_KEY), request, response)
    for request, response in (
        (ProduceRequest, ProduceResponse),
        (FetchRequest, FetchResponse),
        (MetadataRequest, MetadataResponse),
        (ApiVersionsRequest, ApiVersionsResponse),
    )
}

FIRST_FLEXIBLE_VERSION: dict[int, int] = {
    api.key: api.request.FLEXIBLE_VERSIONS[0] for api in APIS.values()
}
"""From which version on the headers of an API have tagged fields; also for versions above those
that we know, as KIP-511 needs for ApiVersions."""
