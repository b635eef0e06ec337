"""A classic group as it stands in the log: one record, written anew as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinators.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinators.groups.classic.member import ClassicMember, Protocol
from ottla.coordinators.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from ottla.coordinators.record import CoordinatorRecord

VALUE_VERSION = 3
"""What Kafka 4.3 writes; it can read 4, but older ones cannot."""


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The group with these assignments, by member id. Who has none is assigned nothing."""
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=group.state_timestamp_ms,
            members=[
                _member_metadata(group, member, assignments.get(member.member_id, b""))
                for member in group.members.values()
            ],
        ),
        VALUE_VERSION,
    )


def new_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """There is such a group, whatever has become of its members when this is read."""
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=group.state_timestamp_ms,
        ),
        VALUE_VERSION,
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def group_from_record(key: GroupMetadataKey, value: GroupMetadataValue) -> ClassicGroup:
    """Stable or empty: only such groups are written."""
    group = ClassicGroup(
        key.group,
        now_ms=value.current_state_timestamp,
        state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
        generation_id=value.generation,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
    )
    for metadata in value.members:
        group.add(_member(value, metadata), value.protocol_type)
    if value.leader in group.members:
        group.leader_id = value.leader
    group.compute_subscribed_topics()
    return group


def _member(value: GroupMetadataValue, metadata: MemberMetadata) -> ClassicMember:
    # Version 0 knows no time-out of rebalances.
    rebalance_timeout_ms = metadata.rebalance_timeout
    if rebalance_timeout_ms == -1:
        rebalance_timeout_ms = metadata.session_timeout
    return ClassicMember(
        metadata.member_id,
        instance_id=metadata.group_instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=metadata.session_timeout,
        # What else it supports it says when it joins again.
        protocols=(Protocol(value.protocol or "", metadata.subscription),),
        assignment=metadata.assignment,
    )


def _member_metadata(
    group: ClassicGroup, member: ClassicMember, assignment: bytes
) -> MemberMetadata:
    assert group.protocol_name is not None, "a generation with members has a protocol"
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(group.protocol_name),
        assignment=assignment,
    )
