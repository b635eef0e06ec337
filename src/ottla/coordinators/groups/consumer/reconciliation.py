"""How a member gets from what it has to what it shall have, a step at each heartbeat.

A partition is given to its new owner only when the old one has said that it no longer has it, so
that no two members read it at once. A member first gives up what it shall no longer have, and
only then moves to the epoch of the new assignment and takes what is free.

    STABLE --it has what it shall not have--> UNREVOKED_PARTITIONS
    any    --some of its partitions are still with others--> UNRELEASED_PARTITIONS
    any    --all there--> STABLE
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, replace

from ottla.coordinators.groups.consumer.member import (
    Assignment,
    ConsumerMember,
    EpochAssignment,
    MemberState,
    OwnedPartitions,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One step. Made for a heartbeat."""

    target_epoch: int
    target: Assignment
    owned: Collection[OwnedPartitions] | None
    """What the member says it has; None if it did not say."""
    owner_of: Callable[[TopicId, int], str | None]
    subscribed_topic_ids: Container[TopicId]
    subscription_changed: bool
    """By this heartbeat: then what the member no longer reads is taken from it even where the
    target assignment is from before."""

    def next(self, member: ConsumerMember) -> ConsumerMember:
        """The same if it cannot go on now. Raises KafkaError if it must begin anew."""
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch != self.target_epoch:
                    return self._towards_target(member)
                return self._without_unsubscribed(member)
            case MemberState.UNREVOKED_PARTITIONS:
                if self._still_owns(member.pending_revocation):
                    return self._without_unsubscribed(member)
                return self._towards_target(member)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._towards_target(member)
            case _:
                if self.owned is None or self.owned:
                    raise KafkaError(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        f"what {member.member_id} does is not known here: it must give up all "
                        "partitions and join again",
                    )
                return self._towards_target(member.at_epoch(self.target_epoch))

    def _still_owns(self, revoked: EpochAssignment) -> bool:
        if self.owned is None:
            return True
        return any(
            not revoked.get(topic.topic_id, {}).keys().isdisjoint(topic.partitions)
            for topic in self.owned
        )

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        if not self.subscription_changed:
            return member
        assigned = dict(member.assigned)
        revoked = {topic_id: dict(parts) for topic_id, parts in member.pending_revocation.items()}
        for topic_id in member.assigned:
            if topic_id not in self.subscribed_topic_ids:
                revoked.setdefault(topic_id, {}).update(assigned.pop(topic_id))
        if len(assigned) == len(member.assigned):
            return member
        if not self._still_owns(revoked):
            return replace(member, assigned=assigned)
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending_revocation=revoked,
        )

    def _towards_target(self, member: ConsumerMember) -> ConsumerMember:
        assigned: dict[TopicId, dict[int, int]] = {}
        revoked: dict[TopicId, dict[int, int]] = {}
        for topic_id, partitions in member.assigned.items():
            target = self._target_of(topic_id)
            for partition, epoch in partitions.items():
                part = assigned if partition in target else revoked
                part.setdefault(topic_id, {})[partition] = epoch
        if revoked and self._still_owns(revoked):
            return replace(
                member.at_epoch(member.member_epoch),
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=assigned,
                pending_revocation=revoked,
            )
        is_complete = self._take_free(member, assigned)
        return replace(
            member.at_epoch(self.target_epoch),
            state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
            assigned=assigned,
            pending_revocation={},
        )

    def _target_of(self, topic_id: TopicId) -> frozenset[int]:
        if topic_id not in self.subscribed_topic_ids:
            return frozenset()
        return self.target.get(topic_id, frozenset())

    def _take_free(self, member: ConsumerMember, assigned: dict[TopicId, dict[int, int]]) -> bool:
        """Adds what nobody else has. False if something is still with another."""
        is_complete = True
        for topic_id in self.target:
            missing = self._target_of(topic_id).difference(assigned.get(topic_id, ()))
            for partition in sorted(missing):
                # What it has just given up itself is free for it again.
                if self.owner_of(topic_id, partition) in (None, member.member_id):
                    assigned.setdefault(topic_id, {})[partition] = self.target_epoch
                else:
                    is_complete = False
        return is_complete
