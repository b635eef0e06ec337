"""The consumer protocol of groups (KIP-848): what each of its requests does.

There is one request, the heartbeat. By it a member joins, says what it reads and has, hears what
it shall have, and leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.classic.records import group_tombstone
from ottla.coordinators.groups.consumer.classic_members import ClassicMembers
from ottla.coordinators.groups.consumer.departure import ConsumerDeparture
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.join import (
    check_has_room,
    joining_dynamic_member,
    joining_static_member,
    new_member_id,
)
from ottla.coordinators.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    Assignment,
    ConsumerMember,
    EpochAssignment,
    MemberState,
    without_epochs,
)
from ottla.coordinators.groups.consumer.records import current_record, group_tombstones
from ottla.coordinators.groups.consumer.replay import ConsumerReplay
from ottla.coordinators.groups.consumer.requests import check_heartbeat
from ottla.coordinators.groups.consumer.update import (
    ConsumerUpdate,
    preferred_assignor,
    supported_assignors,
)
from ottla.coordinators.groups.context import Client, GroupContext
from ottla.coordinators.groups.migration import upgrade
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.kernel.slices import Steps
from ottla.wire.messages import consumer_group_describe as describe_wire
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment as AssignmentAnswer,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

logger = logging.getLogger(__name__)

EPOCH_IN_COMMITS_SINCE = 9
"""OffsetCommit knows of member epochs."""

PartitionCheck = Callable[[str, TopicId, int], None]
"""Of a topic by name and, if known, by id. Raises KafkaError."""


class ConsumerProtocol:
    """Owned by a group shard, and as old as it. `classic` serves members of consumer groups that
    speak the classic protocol."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._replay = ConsumerReplay(context)
        self._departure = ConsumerDeparture(context)
        self._sessions = self._departure.sessions
        self.classic = ClassicMembers(context, self._departure)

    # -- heartbeats -------------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> Steps[Result[ConsumerGroupHeartbeatResponse]]:
        """Raises KafkaError."""
        check_heartbeat(request, client.api_version, self._context.config())
        if request.member_epoch < JOIN_EPOCH:
            return (yield from self._leave(request))
        records: list[CoordinatorRecord] = []
        group = self._group_for(request, records)
        check_has_room(group, request.member_id, self._context.config())
        before = self._member_for(request, group, records)
        update = ConsumerUpdate(self._context, self._sessions, group, records)
        try:
            asked = yield from _with_request(before, request, client)
            member = yield from update.run(before, asked, request.topic_partitions)
        except KafkaError as error:
            update.forget(error)
            raise
        self._sessions.extend(group.group_id, member)
        config = self._context.group_config(group.group_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
        )
        if _is_full(request) or member.assigned != before.assigned:
            response.assignment = _answered(without_epochs(member.assigned))
        return Result(response, records, on_failed=update.forget)

    def _group_for(
        self, request: ConsumerGroupHeartbeatRequest, records: list[CoordinatorRecord]
    ) -> ConsumerGroup:
        """One that is not there yet, or that was a classic one, is made by the records."""
        group = self._context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOIN_EPOCH:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found."
            )
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                upgraded = upgrade(group, self._context, records)
                for member in upgraded.members.values():
                    self._sessions.extend(group.group_id, member)
                return upgraded
            records.append(group_tombstone(group.group_id))
        return ConsumerGroup(request.group_id)

    def _member_for(
        self,
        request: ConsumerGroupHeartbeatRequest,
        group: ConsumerGroup,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """As it was before this request. Raises KafkaError for one who may not go on."""
        if request.member_epoch == JOIN_EPOCH:
            member_id = request.member_id or new_member_id(self._context.rng)
            if request.instance_id is None:
                return joining_dynamic_member(group, member_id)
            return joining_static_member(
                group, member_id, request.instance_id, records, is_classic=False
            )
        member = group.checked_member(request.member_id, request.instance_id)
        _check_epoch(member, request)
        return member

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> Steps[Result[ConsumerGroupHeartbeatResponse]]:
        group = self._context.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        member = group.checked_member(request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            # Its session goes on: if it is not back by the end, others get its partitions.
            away = replace(member, member_epoch=LEAVE_STATIC_EPOCH, pending_revocation={})
            return Result(response, [current_record(group.group_id, away)])
        logger.info("group %s: %s left", group.group_id, member.member_id)
        return (yield from self._departure.remove(group, [member], response))

    # -- for others -------------------------------------------------------------------------

    def describe(self, group: ConsumerGroup) -> describe_wire.DescribedGroup:
        return describe_wire.DescribedGroup(
            group_id=group.group_id,
            group_state=group.state_name,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=preferred_assignor(group.members)
            or supported_assignors(self._context.config())[0],
            members=[self._described(group, member) for member in group.members.values()],
        )

    def _described(self, group: ConsumerGroup, member: ConsumerMember) -> describe_wire.Member:
        return describe_wire.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            # What it has not given up yet it still has.
            assignment=self._named(_joined(member.assigned, member.pending_revocation)),
            target_assignment=self._named(group.target_of(member)),
            member_type=0 if member.uses_classic_protocol else 1,
        )

    def _named(self, assignment: Assignment) -> describe_wire.Assignment:
        listed = []
        for topic_id, partitions in assignment.items():
            topic = self._context.topics.by_id(topic_id)
            if topic is not None:
                listed.append(
                    describe_wire.TopicPartitions(
                        topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions)
                    )
                )
        return describe_wire.Assignment(topic_partitions=listed)

    def check_commit(
        self,
        group: ConsumerGroup,
        member_id: str,
        member_epoch: int,
        instance_id: str | None,
        api_version: int,
    ) -> PartitionCheck:
        """Raises KafkaError if they may commit nothing. What is returned is to be called for each
        partition: a commit from an epoch before may name those that the member has had since
        then, but no others (KIP-1251)."""
        if member_epoch < 0 and group.is_empty:
            return _take_all  # An administrator, or a consumer that assigns itself.
        member = group.member(member_id)
        if not member.uses_classic_protocol and api_version < EPOCH_IN_COMMITS_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"members of consumer groups commit by version {EPOCH_IN_COMMITS_SINCE} or later",
            )
        if member_epoch == member.member_epoch:
            return _take_all
        if member_epoch > member.member_epoch:
            raise _stale(member, member_epoch)
        topics = self._context.topics

        def check(name: str, topic_id: TopicId, partition: int) -> None:
            if topic_id == NO_TOPIC_ID:
                topic = topics.by_name(name)
                topic_id = NO_TOPIC_ID if topic is None else topic.id
            since = member.assignment_epoch_of(topic_id, partition)
            if since is None or member_epoch < since:
                raise _stale(member, member_epoch)

        return check

    def check_fetch(self, group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError if they may not ask for offsets."""
        if member_id is None and member_epoch < 0:
            return  # An administrator, or a client that does not say who it is.
        member = group.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise _stale(member, member_epoch)

    def delete(self, group: ConsumerGroup) -> list[CoordinatorRecord]:
        return group_tombstones(group)

    def topics_changed(self, names: Iterable[str]) -> None:
        """Created, deleted, or with more partitions. The groups that read them are assigned anew
        when a member of them is next heard of."""
        changed = set(names)
        for group in self._consumer_groups():
            if not changed.isdisjoint(group.subscribed_topics):
                group.soft_checked_at_epoch = None
            if group.soft_changed_topics is not None:
                group.soft_changed_topics |= changed

    # -- what the shard calls ---------------------------------------------------------------

    def replay(self, record: CoordinatorRecord) -> bool:
        """False if it is no record of a consumer group."""
        return self._replay.replay(record)

    def loaded(self) -> None:
        for group in self._consumer_groups():
            for member in group.members.values():
                self._sessions.extend(group.group_id, member)
                if (
                    member.state is MemberState.UNREVOKED_PARTITIONS
                    and not member.uses_classic_protocol
                ):
                    self._sessions.await_revocation(group.group_id, member)

    def unloaded(self) -> None:
        """Nobody waits for an answer; the timers go with the shard."""

    def _consumer_groups(self) -> Iterator[ConsumerGroup]:
        groups = self._context.groups.values()
        return (group for group in groups if isinstance(group, ConsumerGroup))


def _with_request(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client
) -> Steps[ConsumerMember]:
    """What the request does not say has not changed."""
    names: set[str] = set()
    for name in request.subscribed_topic_names or ():
        names.add(name)
        yield
    subscribed = member.subscribed_topic_names
    if request.subscribed_topic_names is not None:
        subscribed = frozenset(names)
        yield
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        subscribed_topic_names=subscribed,
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=client.id,
        client_host=client.host,
        classic=None,
    )


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """The epoch before is taken as well if the member has nothing that it was not given: it did
    not hear the answer in which it got the new one."""
    epoch = request.member_epoch
    if epoch == member.member_epoch:
        return
    is_answer_lost = epoch == member.previous_member_epoch and epoch < member.member_epoch
    if not (is_answer_lost and member.owns_only_assigned(request.topic_partitions)):
        comparison = "greater" if epoch > member.member_epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {comparison} member epoch ({epoch}) than the one "
            f"known by the group coordinator ({member.member_epoch}). The member must abandon all "
            "its partitions and rejoin.",
        )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member says everything when it joins, or when it does not know what was heard."""
    return request.member_epoch == JOIN_EPOCH or (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def _answered(assignment: Assignment) -> AssignmentAnswer:
    return AssignmentAnswer(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )


def _joined(*assignments: EpochAssignment) -> Assignment:
    joined: dict[TopicId, frozenset[int]] = {}
    for assignment in assignments:
        for topic_id, partitions in assignment.items():
            joined[topic_id] = joined.get(topic_id, frozenset()).union(partitions)
    return joined


def _take_all(name: str, topic_id: TopicId, partition: int) -> None:
    pass


def _stale(member: ConsumerMember, epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.ILLEGAL_GENERATION
        if member.uses_classic_protocol
        else ErrorCode.STALE_MEMBER_EPOCH,
        f"{member.member_id} is in epoch {member.member_epoch}, not {epoch}",
    )
