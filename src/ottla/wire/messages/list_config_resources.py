"""ListConfigResources: what has settings.

- Version 0 was ListClientMetricsResources, and lists these only (KIP-714).
- 1 can ask for other types, and answers with them (KIP-1142).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+"):
    # Empty for all.
    resource_types: list[int] = array(int8(), "1+", ignorable=False)


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
