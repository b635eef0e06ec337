"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from ottla.coordinators.result import Deferred
from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

NULL_PROTOCOL_NAME_SINCE = 7
"""JoinGroup before this version has an empty name where there is none (KIP-559)."""


class Protocol(NamedTuple):
    """A way to assign that a member can take part in, and what it says to the leader about it."""

    name: str
    metadata: bytes


def protocols_of(asked: Iterable[JoinGroupRequestProtocol]) -> tuple[Protocol, ...]:
    return tuple(Protocol(protocol.name, protocol.metadata) for protocol in asked)


class JoinWaiting(NamedTuple):
    """A JoinGroup that is answered when the group has gathered."""

    response: Deferred[JoinGroupResponse]
    api_version: int

    def answer(self, response: JoinGroupResponse) -> None:
        self.response.resolve(in_version(response, self.api_version))


def in_version(response: JoinGroupResponse, api_version: int) -> JoinGroupResponse:
    """Null or empty, as the version spells that there is no protocol."""
    if not response.protocol_name:
        response.protocol_name = None if api_version >= NULL_PROTOCOL_NAME_SINCE else ""
    return response


class ClassicMember:
    """Owned by its group. What it waits for is lost in a crash with its connection; the rest is
    in the group's record once the leader has assigned."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_waiting",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_waiting",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[Protocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        """In the order of its preference."""
        self.assignment = assignment
        self.is_new = False
        """It has not heard of its first generation yet, and so cannot send heartbeats."""
        self.join_waiting: JoinWaiting | None = None
        self.sync_waiting: Deferred[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def protocol_names(self) -> set[str]:
        return {protocol.name for protocol in self.protocols}

    @property
    def is_kept_alive(self) -> bool:
        """Whether it needs no heartbeats: it waits for us. But a new one may have gone and come
        again under another id, so it is given up after a while even then."""
        return not self.is_new and (self.join_waiting is not None or self.sync_waiting is not None)

    def metadata(self, protocol_name: str) -> bytes:
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise AssertionError(f"{self.member_id} does not support the protocol of its group")

    def vote(self, candidates: Container[str]) -> str:
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise AssertionError(f"{self.member_id} supports none of what all members support")

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """False if it does not wait."""
        if self.sync_waiting is None:
            return False
        waiting, self.sync_waiting = self.sync_waiting, None
        waiting.resolve(response)
        return True

    def await_sync(self, waiting: Deferred[SyncGroupResponse]) -> None:
        # A client that asks again no longer waits for its first answer. It must come all the
        # same: behind it the responses of that connection are held back.
        self.answer_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self.sync_waiting = waiting
