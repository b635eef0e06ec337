"""A group changes its protocol while its members go on reading.

Upgrade: a member that speaks the consumer protocol joins a classic group. The group becomes a
consumer group in which the others are classic members, served by `classic_members`.

Downgrade: the last member that speaks the consumer protocol goes. What is left becomes a classic
group, which rebalances.

Both are records, like everything else: tombstones of the one group and the whole of the other,
written together.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinators.groups.classic.member import ClassicMember, Protocol
from ottla.coordinators.groups.classic.rebalance import Rebalance
from ottla.coordinators.groups.classic.records import group_record, group_tombstone
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.member import (
    Assignment,
    ConsumerMember,
    with_epoch,
)
from ottla.coordinators.groups.consumer.records import group_records, group_tombstones
from ottla.coordinators.groups.context import GroupContext, TopicLookup
from ottla.coordinators.groups.records import ClassicMemberMetadata, ClassicProtocol
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.codec import MalformedMessage
from ottla.wire.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_embedded,
    encode_embedded,
    version_of,
)

logger = logging.getLogger(__name__)


# -- upgrade --------------------------------------------------------------------------------


def upgrade(
    classic: ClassicGroup, context: GroupContext, records: list[CoordinatorRecord]
) -> ConsumerGroup:
    """The same group with the same members, each with the partitions it has. Adds the records, by
    whose replay it comes to be. Raises KafkaError where that may not be."""
    _check_upgrade(classic, context.config())
    group = ConsumerGroup(classic.group_id)
    group.group_epoch = group.assignment_epoch = classic.generation_id
    try:
        for classic_member in classic.members.values():
            member = _consumer_member(classic, classic_member, context.topics)
            group.target[member.member_id] = {
                topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()
            }
            group.put_member(member)
    except MalformedMessage as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"group {classic.group_id!r} cannot become a consumer group: what its members say "
            f"cannot be read ({error})",
        ) from error
    records.append(group_tombstone(classic.group_id))
    records += group_records(group)
    logger.info("group %s becomes a consumer group", group.group_id)
    return group


def _check_upgrade(classic: ClassicGroup, config: BrokerConfig) -> None:
    problem = None
    if config.group_consumer_migration_policy.lower() not in ("upgrade", "bidirectional"):
        problem = "group.consumer.migration.policy forbids it"
    elif classic.protocol_type != PROTOCOL_TYPE:
        problem = f"its members speak {classic.protocol_type!r}"
    elif len(classic.members) > config.group_consumer_max_size:
        problem = "it has more members than group.consumer.max.size"
    if problem is not None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"classic group {classic.group_id!r} cannot become a consumer group: {problem}",
        )


def _consumer_member(
    group: ClassicGroup, member: ClassicMember, topics: TopicLookup
) -> ConsumerMember:
    # In its first rebalance a group has no protocol yet, but members say the same with each.
    name = group.protocol_name or member.protocols[0].name
    subscription = decode_embedded(ConsumerProtocolSubscription, member.metadata(name))
    assignment = ConsumerProtocolAssignment()
    if member.assignment:
        assignment = decode_embedded(ConsumerProtocolAssignment, member.assignment)
    assigned = from_names(assignment.assigned_partitions, topics)
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in member.protocols
            ],
        ),
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        assigned=with_epoch(assigned, group.generation_id),
        pending_revocation={},
    )


def from_names(listed: Collection[TopicPartition], topics: TopicLookup) -> Assignment:
    """Without topics that are gone."""
    assignment: dict[Any, frozenset[int]] = {}
    for topic in listed:
        found = topics.by_name(topic.topic)
        if found is not None and topic.partitions:
            assignment[found.id] = assignment.get(found.id, frozenset()).union(topic.partitions)
    return assignment


# -- downgrade ------------------------------------------------------------------------------


def may_downgrade(
    group: ConsumerGroup, staying: Mapping[str, ConsumerMember], config: BrokerConfig
) -> bool:
    if not staying or not all(member.uses_classic_protocol for member in staying.values()):
        return False
    problem = None
    if config.group_consumer_migration_policy.lower() not in ("downgrade", "bidirectional"):
        problem = "group.consumer.migration.policy forbids it"
    elif len(staying) > config.group_max_size:
        problem = "it has more members than group.max.size"
    if problem is not None:
        logger.info("group %s stays a consumer group: %s", group.group_id, problem)
    return problem is None


def downgrade(
    group: ConsumerGroup, staying: Mapping[str, ConsumerMember], context: GroupContext
) -> list[CoordinatorRecord]:
    """`staying` are all members that the classic group will have. Once it is there, it rebalances:
    its leader has not assigned what they have."""
    classic = ClassicGroup(
        group.group_id,
        now_ms=context.now_ms(),
        state=ClassicState.STABLE,
        generation_id=group.group_epoch,
    )
    for member in staying.values():
        classic.add(_classic_member(member), PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    assignments = {
        member.member_id: embedded_assignment(member, group.target_of(member), context.topics)
        for member in staying.values()
    }
    _rebalance_soon(group.group_id, context)
    logger.info("group %s becomes a classic group", group.group_id)
    return [
        *group_tombstones(group, dict.fromkeys([*group.members, *staying])),
        group_record(classic, assignments),
    ]


def _rebalance_soon(group_id: str, context: GroupContext) -> None:
    def rebalance() -> Result[Any]:
        group = context.groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.state is not ClassicState.STABLE:
            return Result(None)
        return Result(None, Rebalance(context).prepare(group, "it was a consumer group"))

    # It comes after the records are replayed: then the group is there, unless they could not be
    # written.
    context.timers.schedule(f"downgrade {group_id!r}", 0, rebalance)


def _classic_member(member: ConsumerMember) -> ClassicMember:
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic_session_timeout_ms,
        protocols=tuple(
            Protocol(protocol.name, protocol.metadata) for protocol in member.classic_protocols
        ),
    )


def embedded_assignment(
    member: ConsumerMember, assignment: Assignment, topics: TopicLookup
) -> bytes:
    """In the version in which the member speaks of its subscription."""
    named = ((topics.by_id(topic_id), partitions) for topic_id, partitions in assignment.items())
    return encode_embedded(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=topic.name, partitions=sorted(partitions))
                for topic, partitions in named
                if topic is not None
            ]
        ),
        version_of(member.classic_protocols[0].metadata),
    )
