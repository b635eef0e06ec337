"""The classic protocol of groups: what each of its requests does."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from ottla.coordinators.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinators.groups.classic.join import Join
from ottla.coordinators.groups.classic.member import ClassicMember
from ottla.coordinators.groups.classic.rebalance import Rebalance, assignment_response
from ottla.coordinators.groups.classic.records import (
    group_from_record,
    group_record,
    group_tombstone,
)
from ottla.coordinators.groups.context import Client, GroupContext
from ottla.coordinators.groups.records import GroupMetadataKey, GroupMetadataValue
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Deferred, Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Steps
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

LEAVE_IN_BATCHES_SINCE = 3


class ClassicProtocol:
    """Owned by a group shard, and as old as it. Requests for groups of the other kind are not
    sent here."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._rebalance = Rebalance(context)
        self._is_serving = False

    # -- requests ---------------------------------------------------------------------------

    def join(
        self,
        request: JoinGroupRequest,
        client: Client,
        tombstones: Sequence[CoordinatorRecord] = (),
        *,
        has_offsets: bool = False,
    ) -> Result[JoinGroupResponse]:
        """`tombstones` are those of an empty consumer group of this id, which gives way."""
        join = Join(self._context, self._rebalance, request, client)
        return join.run(tombstones, has_offsets=has_offsets)

    def sync(self, request: SyncGroupRequest, client: Client) -> Steps[Result[SyncGroupResponse]]:
        assignments = {}
        for assigned in request.assignments:
            assignments[assigned.member_id] = assigned.assignment
            yield
        try:
            group = self._group_with_members(request.group_id)
            member = _check_sync(group, request)
        except KafkaError as error:
            return Result(SyncGroupResponse(error_code=error.code))
        self._rebalance.synced(group, member)
        if group.state is ClassicState.STABLE:
            return Result(assignment_response(group, member))
        response: Deferred[SyncGroupResponse] = Deferred()
        member.await_sync(response)
        if not group.is_leader(member.member_id):
            return Result(response)
        return Result(
            response,
            [group_record(group, assignments)],
            on_failed=lambda error: self._rebalance.assignment_failed(
                group, request.generation_id, error
            ),
        )

    def heartbeat(self, request: HeartbeatRequest, client: Client) -> Result[HeartbeatResponse]:
        try:
            group = self._group_with_members(request.group_id)
            member = group.check_member(request.member_id, request.group_instance_id)
            _check_generation(group, request.generation_id)
        except KafkaError as error:
            return Result(HeartbeatResponse(error_code=error.code))
        self._rebalance.extend_session(group, member)
        if group.state is ClassicState.PREPARING_REBALANCE:
            return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Result(HeartbeatResponse())

    def leave(
        self, request: LeaveGroupRequest, client: Client
    ) -> Steps[Result[LeaveGroupResponse]]:
        if client.api_version >= LEAVE_IN_BATCHES_SINCE:
            leaving = request.members
        else:
            leaving = [MemberIdentity(member_id=request.member_id)]
        group = self._find(request.group_id)
        answers: list[MemberResponse] = []
        left: list[str] = []
        for identity in leaving:
            code = self._remove(group, identity)
            answers.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=code,
                )
            )
            if code is ErrorCode.NONE:
                left.append(identity.member_id)
            yield
        records: list[CoordinatorRecord] = []
        if group is not None and left and not group.is_empty:
            records = self._rebalance.prepare_or_complete(group, f"left: {', '.join(left)}")
        if client.api_version < LEAVE_IN_BATCHES_SINCE:
            return Result(LeaveGroupResponse(error_code=answers[0].error_code), records)
        return Result(LeaveGroupResponse(members=answers), records)

    def _remove(self, group: ClassicGroup | None, identity: MemberIdentity) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id and instance_id is not None:
            # An administrator knows a static member by its instance id only.
            member_id = group.static_member_ids.get(instance_id, "")
        if member_id not in group.pending_members:
            try:
                group.check_member(member_id, instance_id)
            except KafkaError as error:
                return error.code
        group.remove(member_id)
        self._rebalance.end_session(group, member_id)
        logger.info(
            "group %s: %s left (%s)",
            group.group_id,
            member_id,
            identity.reason or "gave no reason",
        )
        return ErrorCode.NONE

    # -- for others -------------------------------------------------------------------------

    def describe(self, group: ClassicGroup) -> DescribedGroup:
        protocol_name = group.protocol_name if group.state is ClassicState.STABLE else None
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol_name or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=(
                        b"" if protocol_name is None else member.metadata(protocol_name)
                    ),
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    def check_commit(
        self,
        group: ClassicGroup,
        member_id: str,
        generation_id: int,
        instance_id: str | None,
    ) -> None:
        """Raises KafkaError if these may not commit now. A commit is a sign of life."""
        if generation_id < 0 and group.is_empty:
            return  # An administrator, or a consumer that assigns itself.
        if generation_id < 0 and not member_id and instance_id is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group.group_id!r} has members: only they commit",
            )
        member = group.check_member(member_id, instance_id)
        _check_generation(group, generation_id)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            # It has heard of the generation, but not yet what it owns in it.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.extend_session(group, member)

    def check_transactional_commit(
        self,
        group: ClassicGroup,
        member_id: str,
        generation_id: int,
        instance_id: str | None,
    ) -> None:
        """Raises KafkaError if these may not commit within a transaction now. No sign of life: it
        is the producer that calls. One who names no member is a producer of before KIP-447."""
        if generation_id < 0 and group.is_empty:
            return
        if generation_id >= 0 or member_id or instance_id is not None:
            group.check_member(member_id, instance_id)
            _check_generation(group, generation_id)

    def delete(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        return [group_tombstone(group.group_id)]

    # -- what the shard calls ---------------------------------------------------------------

    def replay_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self._find(key.group)
        if value is None:
            if group is not None:
                del self._context.groups[key.group]
                # It can only have members if it becomes a consumer group.
                self._rebalance.discard(group, ErrorCode.REBALANCE_IN_PROGRESS)
        elif self._is_serving and group is not None:
            # We have just written what it is already, except for the assignment.
            self._rebalance.assigned(group, value)
        else:
            group = group_from_record(key, value)
            self._context.groups[key.group] = group
            if self._is_serving:
                # It was a consumer group until now.
                self._begin_sessions(group)

    def loaded(self) -> None:
        self._is_serving = True
        limit = self._context.config().group_max_size
        for group in self._classic_groups():
            self._begin_sessions(group)
            if len(group.members) > limit:
                records = self._rebalance.prepare(group, f"more than {limit} members were loaded")
                assert not records, "members are there, and none has joined yet"

    def unloaded(self) -> None:
        self._is_serving = False
        for group in self._classic_groups():
            self._rebalance.discard(group, ErrorCode.NOT_COORDINATOR)

    def _begin_sessions(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            self._rebalance.extend_session(group, member)

    # -- groups -----------------------------------------------------------------------------

    def _classic_groups(self) -> Iterator[ClassicGroup]:
        return (group for group in self._context.groups.values() if isinstance(group, ClassicGroup))

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _group_with_members(self, group_id: str) -> ClassicGroup:
        group = self._find(group_id)
        if group is None or group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} has no members")
        return group


def _check_generation(group: ClassicGroup, generation_id: int) -> None:
    if generation_id != group.generation_id:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {group.group_id!r} is in generation {group.generation_id}",
        )


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> ClassicMember:
    member = group.check_member(request.member_id, request.group_instance_id)
    _check_generation(group, request.generation_id)
    for named, actual in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if named is not None and actual is not None and named != actual:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {group.group_id!r} has {actual!r}, not {named!r}",
            )
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member
