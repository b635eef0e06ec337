"""A classic group: its members assign the partitions among themselves, here they only meet.

A rebalance has two halves. In PreparingRebalance every member sends JoinGroup; when all have (or
the others were given up) a new generation begins, and each hears who leads it. In
CompletingRebalance every member sends SyncGroup, the leader with the assignment of all; that is
written to the log, and with it the group is Stable.

    Empty --join--> PreparingRebalance --all joined--> CompletingRebalance --assigned--> Stable
      ^                |    ^                               |                             |
      +--all left------+    +---member joins, leaves, is lost, changes its metadata-------+

A new generation is first in the log when its leader has assigned. If this broker fails in the
middle of a rebalance, the next coordinator has the generation before; its members are told
ILLEGAL_GENERATION and join again.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import StrEnum

from ottla.coordinators.groups.classic.member import ClassicMember, JoinWaiting, Protocol
from ottla.coordinators.groups.classic.subscription import subscribed_topics_of
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.codec import MalformedMessage
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE = "consumer"

NO_TIMESTAMP = -1


class ClassicState(StrEnum):
    EMPTY = "Empty"
    """Without members; it lives on for its offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Deleted, turned into a consumer group, or no longer coordinated here."""


TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}


class ClassicGroup:
    """Owned by its shard, which finds it in `GroupContext.groups`. A crash leaves the last
    generation that was assigned."""

    def __init__(
        self,
        group_id: str,
        *,
        now_ms: int,
        state: ClassicState = ClassicState.EMPTY,
        generation_id: int = 0,
        protocol_type: str = "",
        protocol_name: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.state_timestamp_ms = now_ms
        """When it came into its state; -1 where an old record did not say."""
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        """Empty until the first member joins."""
        self.protocol_name = protocol_name
        self.leader_id: str | None = None
        """One of the members, if there are any."""
        self.members: dict[str, ClassicMember] = {}
        self.static_member_ids: dict[str, str] = {}
        """By instance id."""
        self.pending_members: set[str] = set()
        """Ids that were given out, and with which nobody has come yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Who has not sent SyncGroup in this generation."""
        self.awaiting_join_count = 0
        self.is_initial_rebalance = False
        """The rebalance began when the group was empty: it takes time for more to come."""
        self.has_new_member = False
        """Somebody came while the initial rebalance waited."""
        self.subscribed_topics: frozenset[str] | None = None
        """None where that is not known: the members speak of something else than topics."""
        self._supporters: Counter[str] = Counter()

    # -- what every group has ---------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def type_name(self) -> str:
        return "classic"

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def offset_expiry_base_ms(self, commit_timestamp: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp
        if self.state is ClassicState.EMPTY:
            if self.state_timestamp_ms == NO_TIMESTAMP:
                return commit_timestamp
            return self.state_timestamp_ms
        if self.state is ClassicState.STABLE and self.subscribed_topics is not None:
            return commit_timestamp
        return None

    def check_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {self.group_id!r} has members, and which topics they read is not known",
            )

    # -- state ------------------------------------------------------------------------------

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} to {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return ClassicState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def has_all_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def begin_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.pending_sync.clear()
        self.is_initial_rebalance = False
        self.protocol_name = self.select_protocol() if self.members else None
        self.compute_subscribed_topics()
        self.transition_to(
            ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms
        )

    def elect_leader(self) -> bool:
        """The one there is, if it joined, else another who did. False if nobody joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_waiting is not None:
            return True
        for member in self.members.values():
            if member.join_waiting is not None:
                self.leader_id = member.member_id
                return True
        return False

    # -- members ----------------------------------------------------------------------------

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None:
            current_id = self.static_member_ids.get(instance_id)
            if current_id is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id!r}"
                )
            if current_id != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"another consumer has joined with the instance id {instance_id!r}",
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"{member_id!r} is no member of group {self.group_id!r}",
            )
        return member

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_member_ids, "a static member is there once"
            self.static_member_ids[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(member.protocol_names)
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """A member or a pending one. If it waits, it is told that it is not known any more, so
        that it joins anew if it is still alive."""
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.get(member_id)
        if member is None:
            return
        self.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        member.answer_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        del self.members[member_id]
        self._withdraw_support(member)
        if member.instance_id is not None:
            del self.static_member_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def update(
        self,
        member: ClassicMember,
        *,
        protocols: tuple[Protocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._withdraw_support(member)
        member.protocols = protocols
        self._supporters.update(member.protocol_names)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename_static(self, old_id: str, new_id: str) -> ClassicMember:
        """Another process has taken the place of a static member. Whoever waits under the old id
        is fenced."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None, "only a static member is replaced"
        self.answer_join(
            member, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id)
        )
        member.answer_sync(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = new_id
        member.is_new = False
        self.members[new_id] = member
        self.static_member_ids[member.instance_id] = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    # -- waiting ----------------------------------------------------------------------------

    def await_join(self, member: ClassicMember, waiting: JoinWaiting) -> None:
        # As for SyncGroup: who asks again must not leave its first request unanswered.
        self.answer_join(
            member,
            JoinGroupResponse(
                error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id
            ),
        )
        member.join_waiting = waiting
        self.awaiting_join_count += 1

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        """Nothing if it does not wait."""
        if member.join_waiting is not None:
            waiting, member.join_waiting = member.join_waiting, None
            self.awaiting_join_count -= 1
            waiting.answer(response)

    def answer_all(self, code: ErrorCode) -> None:
        for member in self.members.values():
            self.answer_join(member, JoinGroupResponse(error_code=code, member_id=member.member_id))
            member.answer_sync(SyncGroupResponse(error_code=code))

    def joined_response(self, member: ClassicMember, *, with_members: bool) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member.member_id,
            members=self._members_for_leader() if with_members else [],
        )

    def _members_for_leader(self) -> list[JoinGroupResponseMember]:
        assert self.protocol_name is not None, "a generation with members has a protocol"
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # -- protocols --------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether somebody with these can be a member: all members must share one."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._supporters[protocol.name] == len(self.members) for protocol in protocols
        )

    def _withdraw_support(self, member: ClassicMember) -> None:
        for name in member.protocol_names:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]

    def select_protocol(self) -> str:
        """Of those that all members support each votes for the one it likes best."""
        count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def compute_subscribed_topics(self) -> None:
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        if self.members and self.protocol_name is None:
            return
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics |= subscribed_topics_of(member.metadata(self.protocol_name or ""))
        except MalformedMessage as error:
            logger.warning(
                "group %s: what its members subscribe to cannot be read: %s", self.group_id, error
            )
            return
        self.subscribed_topics = frozenset(topics)
