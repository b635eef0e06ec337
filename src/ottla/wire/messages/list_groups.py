"""ListGroups: the groups that this broker coordinates.

- Version 3 is flexible.
- 4 can ask for groups in some states only, and answers with the state (KIP-518).
- 5 does the same with the types of groups (KIP-848).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+"):
    # Empty is no filter, in both.
    states_filter: list[str] = array(string(), "4+", ignorable=False)
    types_filter: list[str] = array(string(), "5+", ignorable=False)


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
