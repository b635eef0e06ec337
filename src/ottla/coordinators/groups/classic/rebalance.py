"""How a classic group goes from one generation to the next, and when it gives a member up.

Methods that may end with the last member gone return the records that say so; all else is in
memory until the leader assigns. Three kinds of timer drive it: a session for each member, the
time that members have to join, and the time that they then have to sync.
"""

from __future__ import annotations

import logging

from ottla.coordinators.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinators.groups.classic.member import ClassicMember
from ottla.coordinators.groups.classic.records import group_record
from ottla.coordinators.groups.context import GroupContext
from ottla.coordinators.groups.records import GroupMetadataValue
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member cannot be heard: it knows its id only from the answer it waits for. If it has gone
and come again, the group would wait for both; so the first is given up after this long."""

_NOBODY_JOINED_MS = 1000


class Rebalance:
    """Owned by the ClassicProtocol of a shard."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    # -- sessions ---------------------------------------------------------------------------

    def extend_session(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        self.expect(
            group,
            member.member_id,
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """To be heard of within the time; it may be a pending member."""
        self._context.timers.schedule(
            _session_timer(group, member_id),
            timeout_ms,
            lambda: Result(None, self._expire_session(group, member_id)),
        )

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self._context.timers.cancel(_session_timer(group, member_id))

    def _expire_session(self, group: ClassicGroup, member_id: str) -> list[CoordinatorRecord]:
        member = group.members.get(member_id)
        if member is None and member_id not in group.pending_members:
            # It rang again: that the group became empty could not be written.
            return []
        if member is not None and member.is_kept_alive:
            return []  # Its next session begins with our answer.
        logger.info("group %s: %s was not heard of in time", group.group_id, member_id)
        group.remove(member_id)
        if member is not None and group.can_rebalance:
            return self.prepare(group, f"{member_id} is lost")
        if group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            return self._complete_join(group)
        return []

    # -- joining ----------------------------------------------------------------------------

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        if group.can_rebalance:
            return self.prepare(group, reason)
        return self.complete_if_joined(group)

    def complete_if_joined(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        if (
            group.state is not ClassicState.PREPARING_REBALANCE
            or group.is_initial_rebalance
            or not group.has_all_joined
        ):
            return []
        return self._complete_join(group)

    def prepare(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """Members are to join again: they hear of it by their heartbeats."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._drop_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._context.timers.cancel(_sync_timer(group))
        group.is_initial_rebalance = group.is_empty
        group.has_new_member = False
        group.transition_to(ClassicState.PREPARING_REBALANCE, self._context.now_ms())
        logger.info(
            "group %s rebalances after generation %d: %s",
            group.group_id,
            group.generation_id,
            reason,
        )
        if group.is_initial_rebalance:
            delay_ms = self._context.config().group_initial_rebalance_delay_ms
            self._await_more(group, delay_ms, max(0, group.rebalance_timeout_ms - delay_ms))
            return []
        if group.has_all_joined:
            return self._complete_join(group)
        self._await_join(group)
        return []

    def _await_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Members of a new group come one after another. Without a pause the first would rebalance
        alone, and again with every other."""

        def complete_or_extend() -> Result[None]:
            if not (group.has_new_member and remaining_ms > 0):
                return Result(None, self._complete_join(group))
            group.has_new_member = False
            configured_ms = self._context.config().group_initial_rebalance_delay_ms
            self._await_more(
                group, min(configured_ms, remaining_ms), max(0, remaining_ms - delay_ms)
            )
            return Result(None)

        self._context.timers.schedule(_join_timer(group), delay_ms, complete_or_extend)

    def _await_join(self, group: ClassicGroup, *, at_least_ms: int = 0) -> None:
        self._context.timers.schedule(
            _join_timer(group),
            max(group.rebalance_timeout_ms, at_least_ms),
            lambda: Result(None, self._complete_join(group)),
        )

    def _complete_join(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        """Who has not joined by now is given up, except static members: they have until the end
        of their session. Then a generation begins."""
        if group.state is not ClassicState.PREPARING_REBALANCE:
            # The timer rang again because the record of the empty group could not be written.
            return []
        self._context.timers.cancel(_join_timer(group))
        late = [
            member.member_id
            for member in group.members.values()
            if member.join_waiting is None and not member.is_static
        ]
        for member_id in late:
            self._give_up(group, member_id)
        if late:
            logger.info("group %s: did not join again: %s", group.group_id, ", ".join(late))
        if not group.elect_leader() and group.members:
            # Static members only, and none of them here. A time-out of none at all would have us
            # look for them without a pause.
            self._await_join(group, at_least_ms=_NOBODY_JOINED_MS)
            return []
        group.begin_generation(self._context.now_ms())
        if group.is_empty:
            logger.info("group %s is empty, generation %d", group.group_id, group.generation_id)
            return [group_record(group, {})]
        for member in group.members.values():
            member.is_new = False
            is_leader = group.is_leader(member.member_id)
            group.answer_join(member, group.joined_response(member, with_members=is_leader))
            self.extend_session(group, member)
        group.pending_sync.update(group.members)
        self._await_sync(group)
        return []

    # -- assigning --------------------------------------------------------------------------

    def _await_sync(self, group: ClassicGroup) -> None:
        generation_id = group.generation_id

        def give_up_late() -> Result[None]:
            if group.generation_id != generation_id or not group.pending_sync:
                return Result(None)
            late = sorted(group.pending_sync)
            for member_id in late:
                self._give_up(group, member_id)
            return Result(None, self.prepare(group, f"did not sync: {', '.join(late)}"))

        self._context.timers.schedule(_sync_timer(group), group.rebalance_timeout_ms, give_up_late)

    def synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._context.timers.cancel(_sync_timer(group))

    def assigned(self, group: ClassicGroup, value: GroupMetadataValue) -> None:
        """The leader's assignment is in the log."""
        if (
            group.state is not ClassicState.COMPLETING_REBALANCE
            or group.generation_id != value.generation
        ):
            return
        assignments = {metadata.member_id: metadata.assignment for metadata in value.members}
        for member in group.members.values():
            member.assignment = assignments[member.member_id]
        group.transition_to(ClassicState.STABLE, self._context.now_ms())
        logger.info(
            "group %s is stable, generation %d, %d members",
            group.group_id,
            group.generation_id,
            len(group.members),
        )
        for member in group.members.values():
            answered = member.answer_sync(assignment_response(group, member))
            if answered:
                # While it waited, the end of its session was passed over.
                self.extend_session(group, member)

    def assignment_failed(self, group: ClassicGroup, generation_id: int, error: KafkaError) -> None:
        """It could not be written: the members shall try again."""
        if (
            group.state is not ClassicState.COMPLETING_REBALANCE
            or group.generation_id != generation_id
        ):
            return
        self._drop_assignment(group, error.code)
        records = self.prepare(group, f"the assignment could not be written: {error}")
        assert not records, "members are there, and none has joined yet"

    def _drop_assignment(self, group: ClassicGroup, code: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.answer_sync(SyncGroupResponse(error_code=code)):
                self.extend_session(group, member)

    # -- the end ----------------------------------------------------------------------------

    def _give_up(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self.end_session(group, member_id)

    def discard(self, group: ClassicGroup, code: ErrorCode) -> None:
        """The group is gone from here; whoever waits hears the code."""
        timers = self._context.timers
        timers.cancel(_join_timer(group))
        timers.cancel(_sync_timer(group))
        for member_id in (*group.members, *group.pending_members):
            self.end_session(group, member_id)
        if group.state is not ClassicState.DEAD:
            group.transition_to(ClassicState.DEAD, self._context.now_ms())
        group.answer_all(code)


def assignment_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


# Ids come from clients and may hold anything: quoted, no two names can be the same.


def _session_timer(group: ClassicGroup, member_id: str) -> str:
    return f"classic session {group.group_id!r} {member_id!r}"


def _join_timer(group: ClassicGroup) -> str:
    return f"classic join {group.group_id!r}"


def _sync_timer(group: ClassicGroup) -> str:
    return f"classic sync {group.group_id!r}"
