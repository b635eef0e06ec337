"""One member of a consumer group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

from ottla.coordinators.groups.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from ottla.kernel.ids import TopicId

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""A static member has gone and will be back: meanwhile nobody gets its partitions."""

Assignment = Mapping[TopicId, frozenset[int]]
"""Which partitions, by topic. No topic stands there without one."""

EpochAssignment = Mapping[TopicId, Mapping[int, int]]
"""The same, and in which epoch the member got each of them (KIP-1251)."""

NOTHING: Assignment = {}


class OwnedPartitions(Protocol):
    """As requests list them."""

    topic_id: TopicId
    partitions: list[int]


class MemberState(IntEnum):
    STABLE = 0
    """It has all of its target assignment, or has not been told of a newer one."""
    UNREVOKED_PARTITIONS = 1
    """It is to give up partitions, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Of a newer broker."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """Never changed: a record of it is replayed into a new one. Two records make it up, and
    either may come first: what it says of itself, and what it is assigned."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    classic: ClassicMemberMetadata | None = None
    """Set if it speaks the classic protocol."""

    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: EpochAssignment
    pending_revocation: EpochAssignment

    @classmethod
    def new(cls, member_id: str) -> ConsumerMember:
        return cls(member_id=member_id, assigned={}, pending_revocation={})

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def classic_protocols(self) -> list[ClassicProtocol]:
        return [] if self.classic is None else self.classic.supported_protocols

    @property
    def classic_session_timeout_ms(self) -> int:
        assert self.classic is not None, f"{self.member_id} does not speak the classic protocol"
        return self.classic.session_timeout_ms

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """Also where that is the one it has: then it is the one before, too, as in Kafka, and a
        heartbeat of an older one is fenced."""
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def owns_only_assigned(self, owned: Iterable[OwnedPartitions] | None) -> bool:
        """Whether what the member says it owns is part of what it was given."""
        if owned is None:
            return False
        return all(
            all(map(self.assigned.get(topic.topic_id, {}).__contains__, topic.partitions))
            for topic in owned
        )

    def assignment_epoch_of(self, topic_id: TopicId, partition: int) -> int | None:
        for assignment in (self.assigned, self.pending_revocation):
            epoch = assignment.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    # -- records ----------------------------------------------------------------------------

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            classic=value.classic_member_metadata,
        )

    def with_current_assignment(
        self, value: ConsumerGroupCurrentMemberAssignmentValue
    ) -> ConsumerMember:
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_from_record(value.assigned_partitions, value.member_epoch),
            pending_revocation=_from_record(
                value.partitions_pending_revocation, value.member_epoch
            ),
        )

    def without_assignment(self) -> ConsumerMember:
        return replace(
            self,
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            assigned={},
            pending_revocation={},
        )

    def metadata_value(self, sorted_names: list[str]) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted_names,
            subscribed_topic_regex=self.subscribed_topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def current_assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_to_record(self.assigned),
            partitions_pending_revocation=_to_record(self.pending_revocation),
        )


def without_epochs(assignment: EpochAssignment) -> Assignment:
    return {topic_id: frozenset(partitions) for topic_id, partitions in assignment.items()}


def with_epoch(assignment: Assignment, epoch: int) -> EpochAssignment:
    return {topic_id: dict.fromkeys(parts, epoch) for topic_id, parts in assignment.items()}


def _from_record(topics: list[TopicPartitions], member_epoch: int) -> EpochAssignment:
    # Brokers before 4.3 wrote no epochs. Then the member's own is right or too high, so that at
    # worst a commit is refused that could be taken.
    default = max(member_epoch, 0)
    assignment: dict[TopicId, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default] * len(topic.partitions)
        assignment[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assignment


def _to_record(assignment: EpochAssignment) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic_id, partitions in assignment.items()
    ]
