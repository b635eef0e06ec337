"""A consumer group: the coordinator assigns the partitions (KIP-848).

Three epochs tell how far it is. The group's own grows when a member comes, goes or changes its
subscription, or when the topics change. The target assignment is computed for an epoch of the
group, and has that as its epoch. Each member follows by itself: its epoch is that of the target
assignment that it was last told of.

    Empty        no members
    Assigning    the target assignment is behind the group
    Reconciling  members are behind the target assignment
    Stable       each has what it shall have
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from ottla.coordinators.groups.consumer.member import (
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
)
from ottla.coordinators.groups.consumer.subscription import ResolvedRegex
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.wire.messages.consumer_protocol import PROTOCOL_TYPE

INITIAL_EPOCH = 1
"""Before anything is assigned. Not 0: a member that is told 0 would join for ever."""


class ConsumerGroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """Owned by its shard, which finds it in `GroupContext.groups`. Changed by replay only, but for
    what has `soft` in its name; so a crash loses nothing that a member was told."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_member_ids: dict[str, str] = {}
        """By instance id."""
        self.target: dict[str, Assignment] = {}
        """By member id."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata_record = False
        """Of Kafka 4.0: it is taken back when the group is next written."""
        self.soft_checked_at_epoch: int | None = None
        """The topics have not changed since the group came to this epoch; None if they may have."""
        self.soft_changed_topics: set[str] | None = None
        """Names that may have come or gone since the regular expressions were resolved; None if
        that is not known."""
        self._owners: dict[TopicId, dict[int, str]] = {}
        self._subscribed_topics: frozenset[str] | None = None

    # -- what every group has ---------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        for member in self.members.values():
            if not member.is_reconciled_to(self.assignment_epoch):
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def type_name(self) -> str:
        return "consumer"

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def offset_expiry_base_ms(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def check_offset_delete(self) -> None:
        """Always possible: which topics are read is known."""

    # -- subscriptions ----------------------------------------------------------------------

    @property
    def subscribed_topics(self) -> frozenset[str]:
        if self._subscribed_topics is None:
            self._subscribed_topics = self.topics_of_all(self.members.values(), self.regexes)
        return self._subscribed_topics

    @staticmethod
    def topics_of(member: ConsumerMember, regexes: dict[str, ResolvedRegex]) -> frozenset[str]:
        resolved = regexes.get(member.subscribed_topic_regex)
        if resolved is None:
            return member.subscribed_topic_names
        return member.subscribed_topic_names | resolved.topics

    @classmethod
    def topics_of_all(
        cls, members: Iterable[ConsumerMember], regexes: dict[str, ResolvedRegex]
    ) -> frozenset[str]:
        return frozenset().union(*(cls.topics_of(member, regexes) for member in members))

    def subscribed_regexes(self) -> set[str]:
        return regexes_of(self.members.values())

    def is_metadata_checked(self) -> bool:
        """If the group did not come to the epoch of the check, its record was not written."""
        checked_at = self.soft_checked_at_epoch
        return checked_at is not None and self.group_epoch >= checked_at

    # -- members ----------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerMember:
        found = self.members.get(member_id)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return found

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        member_id = self.static_member_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def checked_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """By its id, or by that of its instance if it has one. Raises KafkaError."""
        if instance_id is None:
            return self.member(member_id)
        found = self.static_member(instance_id)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Instance id {instance_id} is unknown.",
            )
        if found.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{found.member_id}.",
            )
        return found

    def members_with(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """As they will be, the one whose place it takes left out."""
        members = dict(self.members)
        replaced = self.static_member(updated.instance_id)
        if replaced is not None and replaced.member_id != updated.member_id:
            del members[replaced.member_id]
        members[updated.member_id] = updated
        return members

    def target_of(self, member: ConsumerMember) -> Assignment:
        """That of its instance if it has one: the member may be about to take its place."""
        if member.instance_id is not None:
            member_id = self.static_member_ids.get(member.instance_id, member.member_id)
            return self.target.get(member_id, NOTHING)
        return self.target.get(member.member_id, NOTHING)

    def owner_of(self, topic_id: TopicId, partition: int) -> str | None:
        """Whoever has been given it and has not given it up."""
        return self._owners.get(topic_id, {}).get(partition)

    def awaits_others(self, member: ConsumerMember) -> bool:
        """Whether partitions that it shall have are still with others."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, ())
            and self.owner_of(topic_id, partition) is not None
            for topic_id, partitions in self.target_of(member).items()
            for partition in partitions
        )

    # -- protocols --------------------------------------------------------------------------

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a classic member with these can come in: all such members must share one."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        classic = [member for member in self.members.values() if member.uses_classic_protocol]
        supporters = Counter(
            name
            for member in classic
            for name in {protocol.name for protocol in member.classic_protocols}
        )
        return any(supporters[name] == len(classic) for name in names)

    # -- replay -----------------------------------------------------------------------------

    def put_member(self, member: ConsumerMember) -> None:
        self._release(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_member_ids[member.instance_id] = member.member_id
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                owners = self._owners.setdefault(topic_id, {})
                for partition in partitions:
                    owners[partition] = member.member_id
        self._subscribed_topics = None

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        instance_id = member.instance_id
        # Another member may have taken its place already.
        if instance_id is not None and self.static_member_ids.get(instance_id) == member_id:
            del self.static_member_ids[instance_id]
        self._subscribed_topics = None

    def _release(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    # A compacted log may show a new owner before the old one's newest record.
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        self.regexes[regex] = resolved
        self._subscribed_topics = None

    def remove_regex(self, regex: str) -> None:
        self.regexes.pop(regex, None)
        self._subscribed_topics = None


def regexes_of(members: Iterable[ConsumerMember]) -> set[str]:
    return {member.subscribed_topic_regex for member in members if member.subscribed_topic_regex}
