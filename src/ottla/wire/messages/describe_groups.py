"""DescribeGroups: state and members of classic groups.

- Version 3 can ask for the operations that the client may do (KIP-430).
- 4 tells the instance ids of static members (KIP-345).
- 5 is flexible.
- 6 answers with an error for a group that is not there, up to then it is a dead one (KIP-1043).
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


class DescribeGroupsRequest(Request, api_key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array(string())
    include_authorized_operations: bool = boolean("3+", ignorable=False)


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    # Both are empty unless the group is stable.
    member_metadata: bytes = bytestring()
    member_assignment: bytes = bytestring()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    # The name of the assignor, while the group is stable.
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    # Bits, one an operation; the smallest integer means that they were not asked for.
    authorized_operations: int = int32("3+", default=-0x8000_0000)


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)
