"""DescribeCluster: brokers, controller and cluster id (KIP-700). Flexible from the start.

- Version 1 asks for endpoints of brokers or of controllers (KIP-919).
- 2 can list fenced brokers too (KIP-1073).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Request, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean()
    # 1 brokers, 2 controllers.
    endpoint_type: int = int8("1+", default=1, ignorable=False)
    include_fenced_brokers: bool = boolean("2+", ignorable=False)


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-0x8000_0000)
