"""LeaveGroup: members go, or an administrator removes them.

- Version 3 takes many members, each by its id or by that of its instance (KIP-345).
- 4 is flexible.
- 5 has the reason (KIP-800).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2", ignorable=False)
    members: list[MemberIdentity] = array(MemberIdentity, "3+", ignorable=False)


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+")
    error_code: int = int16()


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
