"""JoinGroup in a classic group: who may enter, under which id, and whether the group rebalances."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ottla.coordinators.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinators.groups.classic.member import (
    ClassicMember,
    JoinWaiting,
    Protocol,
    in_version,
    protocols_of,
)
from ottla.coordinators.groups.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalance
from ottla.coordinators.groups.classic.records import group_record, new_group_record
from ottla.coordinators.groups.context import Client, GroupContext
from ottla.coordinators.groups.group import Group
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Deferred, Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4
"""Before, a client that gave up waiting and asked again left a member behind that nobody was
(KIP-394)."""

SKIP_ASSIGNMENT_SINCE = 9
"""A static leader that comes back to a stable group learns that it leads, but must not assign
(KIP-814). To older ones the id of its former self is named as leader."""


class Join:
    """One request, while it is handled. What it leaves waiting is kept by the group."""

    def __init__(
        self,
        context: GroupContext,
        rebalance: Rebalance,
        request: JoinGroupRequest,
        client: Client,
    ) -> None:
        self._context = context
        self._rebalance = rebalance
        self._request = request
        self._client = client
        self._protocols = protocols_of(request.protocols)

    def run(
        self, tombstones: Sequence[CoordinatorRecord], *, has_offsets: bool
    ) -> Result[JoinGroupResponse]:
        request = self._request
        config = self._context.config()
        if not (
            config.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= config.group_max_session_timeout_ms
        ):
            return self._refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        group = self._context.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._join(group)
        if request.member_id and has_offsets:
            # Offsets alone are an empty classic group: it refuses the member in its own way.
            return self._join(ClassicGroup(request.group_id, now_ms=self._context.now_ms()))
        if request.member_id:
            return self._refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        assert group is None or tombstones, "a consumer group gives way with its tombstones only"
        return self._join_new_group(group, tombstones)

    def _join_new_group(
        self, replaced: Group | None, tombstones: Sequence[CoordinatorRecord]
    ) -> Result[JoinGroupResponse]:
        groups = self._context.groups
        group_id = self._request.group_id
        group = ClassicGroup(group_id, now_ms=self._context.now_ms())
        groups[group_id] = group
        result = self._join(group)
        assert not result.records, "the first generation of a group comes later"

        def take_back(error: KafkaError) -> None:
            if groups.get(group_id) is group:
                del groups[group_id]
                if replaced is not None:
                    groups[group_id] = replaced
            self._rebalance.discard(group, error.code)

        return Result(result.response, [*tombstones, new_group_record(group)], on_failed=take_back)

    def _join(self, group: ClassicGroup) -> Result[JoinGroupResponse]:
        member_id = self._request.member_id
        if not self._has_room(group):
            group.remove(member_id)
            self._rebalance.end_session(group, member_id)
            records = self._rebalance.complete_if_joined(group)
            return self._refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "", records)
        if not group.supports(self._request.protocol_type, self._protocols):
            return self._refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if not member_id:
            return self._join_unknown(group)
        if member_id in group.pending_members:
            if self._request.group_instance_id is not None:
                # Ids are given out to dynamic members only.
                return self._refused(ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
            return self._add(group, member_id)
        try:
            member = group.check_member(member_id, self._request.group_instance_id)
        except KafkaError as error:
            return self._refused(error.code, member_id)
        return self._rejoin(group, member)

    def _has_room(self, group: ClassicGroup) -> bool:
        """While the group gathers, those who have come count, not the members of before: so the
        last ones are left out when the limit was lowered."""
        limit = self._context.config().group_max_size
        member = group.members.get(self._request.member_id)
        if group.is_empty:
            return True
        if group.state is ClassicState.PREPARING_REBALANCE:
            is_here = member is not None and member.join_waiting is not None
            return is_here or group.awaiting_join_count < limit
        return member is not None or len(group.members) < limit

    # -- who is not known -------------------------------------------------------------------

    def _join_unknown(self, group: ClassicGroup) -> Result[JoinGroupResponse]:
        instance_id = self._request.group_instance_id
        if instance_id is not None:
            former_id = group.static_member_ids.get(instance_id)
            member_id = self._new_member_id(instance_id)
            if former_id is None:
                return self._add(group, member_id)
            return self._replace_static(group, former_id, member_id)
        member_id = self._new_member_id(self._client.id)
        if self._client.api_version < MEMBER_ID_REQUIRED_SINCE:
            return self._add(group, member_id)
        group.pending_members.add(member_id)
        self._rebalance.expect(group, member_id, self._request.session_timeout_ms)
        return self._refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuid.UUID(bytes=self._context.rng.randbytes(16), version=4)}"

    def _add(self, group: ClassicGroup, member_id: str) -> Result[JoinGroupResponse]:
        member = ClassicMember(
            member_id,
            instance_id=self._request.group_instance_id,
            client_id=self._client.id,
            client_host=self._client.host,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=self._request.session_timeout_ms,
            protocols=self._protocols,
        )
        member.is_new = True
        group.add(member, self._request.protocol_type)
        group.has_new_member = group.is_initial_rebalance
        self._rebalance.extend_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._wait(group, member, f"{member_id} is new")

    # -- who is known -----------------------------------------------------------------------

    def _rejoin(self, group: ClassicGroup, member: ClassicMember) -> Result[JoinGroupResponse]:
        is_leader = group.is_leader(member.member_id)
        is_same = member.protocols == self._protocols
        if group.state is ClassicState.COMPLETING_REBALANCE and is_same:
            # It did not hear our answer.
            return self._answer(group.joined_response(member, with_members=is_leader))
        if group.state is ClassicState.STABLE and is_same and not is_leader:
            return self._answer(group.joined_response(member, with_members=False))
        # A leader that joins again wants to assign anew, for topics have changed.
        self._update(group, member)
        return self._wait(group, member, f"{member.member_id} joins again")

    def _replace_static(
        self, group: ClassicGroup, former_id: str, member_id: str
    ) -> Result[JoinGroupResponse]:
        """A static member has come back as another process. What it owned waits for it."""
        former_leader_id = group.leader_id
        member = group.rename_static(former_id, member_id)
        former = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._rebalance.end_session(group, former_id)
        self._update(group, member)
        self._rebalance.extend_session(group, member)
        if group.state is not ClassicState.STABLE or (
            # The others could not go on with what they have.
            group.select_protocol() != group.protocol_name
        ):
            # In CompletingRebalance the leader may just assign to the former id.
            return self._wait(group, member, f"{member_id} takes the place of {former_id}")

        def take_back(_: KafkaError) -> None:
            if group.state is ClassicState.STABLE:
                self._restore_static(group, member, former_id, former)

        is_skipping = self._client.api_version >= SKIP_ASSIGNMENT_SINCE
        is_leader = group.is_leader(member_id)
        response = group.joined_response(member, with_members=is_skipping and is_leader)
        if is_skipping:
            response.skip_assignment = is_leader
        else:
            response.leader = former_leader_id or ""
        assignments = {other.member_id: other.assignment for other in group.members.values()}
        return Result(
            in_version(response, self._client.api_version),
            [group_record(group, assignments)],
            on_failed=take_back,
        )

    def _restore_static(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        former_id: str,
        former: tuple[tuple[Protocol, ...], int, int],
    ) -> None:
        protocols, rebalance_timeout_ms, session_timeout_ms = former
        self._rebalance.end_session(group, member.member_id)
        group.rename_static(member.member_id, former_id)
        group.update(
            member,
            protocols=protocols,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
        )
        self._rebalance.extend_session(group, member)

    # -- answers ----------------------------------------------------------------------------

    @property
    def _rebalance_timeout_ms(self) -> int:
        if self._client.api_version == 0:
            return self._request.session_timeout_ms
        return self._request.rebalance_timeout_ms

    def _update(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.update(
            member,
            protocols=self._protocols,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=self._request.session_timeout_ms,
        )

    def _wait(
        self, group: ClassicGroup, member: ClassicMember, event: str
    ) -> Result[JoinGroupResponse]:
        response: Deferred[JoinGroupResponse] = Deferred()
        group.await_join(member, JoinWaiting(response, self._client.api_version))
        reason = f"{event} ({self._request.reason or 'gave no reason'})"
        return Result(response, self._rebalance.prepare_or_complete(group, reason))

    def _answer(self, response: JoinGroupResponse) -> Result[JoinGroupResponse]:
        return Result(in_version(response, self._client.api_version))

    def _refused(
        self, code: ErrorCode, member_id: str, records: Sequence[CoordinatorRecord] = ()
    ) -> Result[JoinGroupResponse]:
        response = JoinGroupResponse(error_code=code, member_id=member_id)
        return Result(in_version(response, self._client.api_version), records)
