"""DescribeConfigs: settings of topics and brokers, with where each comes from.

- Version 1 is the first with sources and synonyms (KIP-226).
- 3 can ask for documentation, and tells types (KIP-569).
- 4 is flexible.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    # Null for all.
    configuration_keys: list[str] | None = array(string(), nullable="1+")


class DescribeConfigsRequest(Request, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+", ignorable=False)


class DescribeConfigsSynonym(Struct):
    name: str = string()
    value: str | None = string(nullable="1+")
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="1+")
    read_only: bool = boolean()
    # 1 topic, 2 broker (dynamic), 3 all brokers (dynamic), 4 server.properties, 5 default.
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    # 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="3+")


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Response, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
