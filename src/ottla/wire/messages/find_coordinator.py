"""FindCoordinator: the broker that coordinates a group or a transactional id.

- Version 1 tells the kind of key: 0 a group, 1 a transactional id, from 6 on 2 a share group.
- 3 is flexible.
- 4 asks for many keys at once, and answers in a list (KIP-699).
- 5 may answer TRANSACTION_ABORTABLE (KIP-890).
- 6 is for share groups (KIP-932).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    key: str = string("0-3", ignorable=False)
    key_type: int = int8("1+", ignorable=False)
    coordinator_keys: list[str] = array(string(), "4+", ignorable=False)


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="4+")


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    # Up to version 3 the one coordinator stands here, later in the list.
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
