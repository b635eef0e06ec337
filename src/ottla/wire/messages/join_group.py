"""JoinGroup: a member enters a group, or comes back to it when the group rebalances.

The response comes once every member has joined, or those who did not were given up.

- Version 1 tells apart how long a rebalance may take and how long a member may be silent.
- 4 refuses a member without an id, with the id under which to come again (KIP-394).
- 5 names static members (KIP-345).
- 6 is flexible.
- 7 answers with the type of protocol (KIP-559).
- 8 has the member say why it joins (KIP-800).
- 9 may tell the leader to keep the assignment that there is (KIP-814).
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    bytestring,
    int16,
    int32,
    string,
)


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = bytestring()


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    # Version 0 has none: the session time-out stands for it.
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=False)
    protocol_type: str = string()
    # In the order of preference.
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = bytestring()


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    # Up to version 6 it is empty where later ones have null.
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    # For the leader only, who assigns.
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
