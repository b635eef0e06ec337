"""Heartbeat: a member of a classic group is alive, and hears whether the group rebalances.

- Version 3 names static members (KIP-345).
- 4 is flexible.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=False)


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
