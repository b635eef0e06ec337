"""A coordinator of classic groups without a runtime: records go to a list, and time is moved by
hand. `reload` is what a crash of the broker leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.classic.protocol import ClassicProtocol
from ottla.coordinators.groups.context import Client, GroupContext, TopicInfo
from ottla.coordinators.groups.records import (
    RECORD_TYPES,
    GroupMetadataKey,
    GroupMetadataValue,
)
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from ottla.coordinators.result import Deferred, Planned, Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.support.group_timers import ManualTimers
from tests.support.planned import planned

T = TypeVar("T")

GROUP = "group"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class NoTopics:
    """Classic groups do not ask for topics."""

    def by_name(self, name: str) -> TopicInfo | None:
        return None

    def by_id(self, topic_id: TopicId) -> TopicInfo | None:
        return None

    def names(self) -> list[str]:
        return []


class ClassicCoordinator:
    """Made by a test. What it answers to is the wire's messages; the log is `log`."""

    def __init__(self, settings: Mapping[str, str] | None = None, seed: int = 0) -> None:
        self.config = BrokerConfig(dict(settings or {}))
        self.log: list[tuple[bytes, bytes | None]] = []
        self.failure: KafkaError | None = None
        """What the next writes fail with."""
        self._rng = random.Random(seed)
        self.timers = ManualTimers(self._run_timer)
        self._begin()

    def _begin(self) -> None:
        self.context = GroupContext(
            timers=self.timers,
            config=lambda: self.config,
            now_ms=self.timers.now_ms,
            rng=self._rng,
            topics=NoTopics(),
        )
        self.protocol = ClassicProtocol(self.context)
        for key, value in self.log:
            decoded = decode_record(RECORD_TYPES, key, value)
            assert decoded is not None
            self._replay(decoded)
        self.protocol.loaded()

    def reload(self) -> None:
        """The shard is closed, and loaded from its log."""
        self.timers.cancel_all()
        self.protocol.unloaded()
        self._begin()

    @property
    def group(self) -> ClassicGroup:
        group = self.context.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def records(self) -> list[CoordinatorRecord]:
        decoded = [decode_record(RECORD_TYPES, key, value) for key, value in self.log]
        return [record for record in decoded if record is not None]

    # -- what the runtime does --------------------------------------------------------------

    def write(self, operation: Planned[T]) -> T | Deferred[T]:
        result = planned(operation)
        if result.records and self.failure is not None:
            if result.on_failed is not None:
                result.on_failed(self.failure)
            if isinstance(result.response, Deferred) and result.response.is_resolved:
                return result.response
            raise self.failure
        written = [encode_record(record) for record in result.records]
        self.log += written
        for key, value in written:
            decoded = decode_record(RECORD_TYPES, key, value)
            assert decoded is not None
            self._replay(decoded)
        return result.response

    def _replay(self, record: CoordinatorRecord) -> None:
        assert isinstance(record.key, GroupMetadataKey)
        assert record.value is None or isinstance(record.value, GroupMetadataValue)
        self.protocol.replay_group(record.key, record.value)

    def _run_timer(self, operation: Callable[[], Result[Any]]) -> None:
        try:
            self.write(operation())
        except KafkaError:
            self.timers.schedule(f"retry {id(operation)}", 500, operation)

    # -- requests ---------------------------------------------------------------------------

    def join(self, member_id: str = "", **fields: Any) -> Deferred[JoinGroupResponse]:
        """`version`, `client_id`, `protocols` and what JoinGroup has."""
        version = fields.pop("version", 9)
        client = Client(fields.pop("client_id", "client"), "/10.0.0.1", version)
        protocols = fields.pop("protocols", {"range": b"metadata"})
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols.items()
            ],
            **{
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                "protocol_type": "consumer",
                **fields,
            },
        )
        return self._answer(self.write(self.protocol.join(request, client)))

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: Mapping[str, bytes] | None = None,
        **fields: Any,
    ) -> Deferred[SyncGroupResponse]:
        version = fields.pop("version", 5)
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=generation_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=assignment)
                for to, assignment in (assignments or {}).items()
            ],
            **{"protocol_type": "consumer", "protocol_name": "range", **fields},
        )
        client = Client("client", "/10.0.0.1", version)
        return self._answer(self.write(self.protocol.sync(request, client)))

    def heartbeat(self, member_id: str, generation_id: int, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation_id, **fields
        )
        response = self.write(self.protocol.heartbeat(request, Client("client", "/10.0.0.1", 4)))
        assert not isinstance(response, Deferred)
        return ErrorCode(response.error_code)

    def leave(self, *leaving: MemberIdentity | str, version: int = 5) -> LeaveGroupResponse:
        members = [
            MemberIdentity(member_id=member) if isinstance(member, str) else member
            for member in leaving
        ]
        request = LeaveGroupRequest(group_id=GROUP, members=members)
        if version < 3:
            request = LeaveGroupRequest(group_id=GROUP, member_id=members[0].member_id)
        client = Client("client", "/10.0.0.1", version)
        response = self.write(self.protocol.leave(request, client))
        assert not isinstance(response, Deferred)
        return response

    def commit(self, member_id: str, generation_id: int, instance_id: str | None = None) -> str:
        """The name of the error, or NONE."""
        try:
            self.protocol.check_commit(self.group, member_id, generation_id, instance_id)
        except KafkaError as error:
            return error.code.name
        return "NONE"

    def _answer(self, response: T | Deferred[T]) -> Deferred[T]:
        if isinstance(response, Deferred):
            return response
        answered: Deferred[T] = Deferred()
        answered.resolve(response)
        return answered

    # -- several at once --------------------------------------------------------------------

    def new_member_id(self, **fields: Any) -> str:
        refused = self.join(**fields).value
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return refused.member_id

    def stable_group(self, *members: Mapping[str, Any]) -> list[str]:
        """The ids of the members; the first leads. Each owns what is called like its number."""
        waiting = [self._join_as(dict(fields)) for fields in members]
        self.timers.advance(self.config.group_initial_rebalance_delay_ms)
        member_ids = [joined.value.member_id for joined in waiting]
        self.sync_all(member_ids)
        return member_ids

    def _join_as(self, fields: dict[str, Any]) -> Deferred[JoinGroupResponse]:
        if fields.get("group_instance_id") is None and fields.get("version", 9) >= 4:
            return self.join(self.new_member_id(**fields), **fields)
        return self.join(**fields)

    def sync_all(self, member_ids: Sequence[str]) -> list[SyncGroupResponse]:
        generation_id = self.group.generation_id
        leader_id = self.group.leader_id
        assignments = {to: str(number).encode() for number, to in enumerate(member_ids)}
        name = {"protocol_name": self.group.protocol_name}
        waiting = [
            self.sync(to, generation_id, assignments if to == leader_id else None, **name)
            for to in member_ids
        ]
        return [synced.value for synced in waiting]
