"""Members of a consumer group that speak the classic protocol: the group is being upgraded, and
some of its consumers have not been restarted yet.

For such a member a rebalance is its own affair. When its heartbeat says that it should rebalance,
it joins, says what it has, and is told at once what it shall have: nobody waits for anybody. If
it has to give up partitions, the answer has only what it keeps; it then finds that it should
rebalance again, and joins without the others.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ottla.coordinators.groups.classic.member import in_version
from ottla.coordinators.groups.consumer.departure import ConsumerDeparture
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.join import (
    check_has_room,
    joining_dynamic_member,
    joining_static_member,
    new_member_id,
)
from ottla.coordinators.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    without_epochs,
)
from ottla.coordinators.groups.consumer.update import ConsumerUpdate
from ottla.coordinators.groups.context import Client, GroupContext
from ottla.coordinators.groups.migration import (
    downgrade,
    embedded_assignment,
    from_names,
    may_downgrade,
)
from ottla.coordinators.groups.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    TopicPartition,
)
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Steps
from ottla.wire.codec import MalformedMessage
from ottla.wire.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    decode_embedded,
)
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

MEMBER_ID_REQUIRED_SINCE = 4
LEAVE_IN_BATCHES_SINCE = 3


class ClassicMembers:
    """Owned by the ConsumerProtocol of a shard. All requests raise KafkaError."""

    def __init__(self, context: GroupContext, departure: ConsumerDeparture) -> None:
        self._context = context
        self._departure = departure
        self._sessions = departure.sessions

    # -- joining ----------------------------------------------------------------------------

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: Client
    ) -> Steps[Result[JoinGroupResponse]]:
        """The group is not empty: an empty one becomes a classic one."""
        self._check_join(group, request)
        is_unknown = not request.member_id
        member_id = request.member_id or new_member_id(self._context.rng)
        if (
            is_unknown
            and request.group_instance_id is None
            and client.api_version >= MEMBER_ID_REQUIRED_SINCE
        ):
            refused = JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id
            )
            return Result(in_version(refused, client.api_version))
        subscription = _subscription_of(request)
        records: list[CoordinatorRecord] = []
        before = self._member_for(
            group, member_id, request.group_instance_id, records, is_unknown=is_unknown
        )
        member = _with_request(before, request, client, subscription)
        staying = group.members_with(member)
        replaced = group.static_member(request.group_instance_id)
        if (
            replaced is not None
            and not replaced.uses_classic_protocol
            and may_downgrade(group, staying, self._context.config())
        ):
            records += downgrade(group, staying, self._context)
            return Result(_joined(member, group.group_epoch), records)
        update = ConsumerUpdate(self._context, self._sessions, group, records)
        owned = from_names(subscription.owned_partitions, self._context.topics)
        try:
            member = yield from update.run(
                before,
                member,
                [
                    TopicPartition(topic_id=topic_id, partitions=list(partitions))
                    for topic_id, partitions in owned.items()
                ],
            )
        except KafkaError as error:
            update.forget(error)
            raise
        self._sessions.extend(group.group_id, member)
        self._sessions.await_sync(group.group_id, member)
        return Result(_joined(member, member.member_epoch), records, on_failed=update.forget)

    def _check_join(self, group: ConsumerGroup, request: JoinGroupRequest) -> None:
        config = self._context.config()
        if not (
            config.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= config.group_max_session_timeout_ms
        ):
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"a session of {request.session_timeout_ms} ms is too short or too long",
            )
        check_has_room(group, request.member_id, config)
        names = [protocol.name for protocol in request.protocols]
        if not group.supports_classic(request.protocol_type, names):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {group.group_id!r} does not support {request.protocol_type!r} by "
                f"{', '.join(names)}",
            )

    def _member_for(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        records: list[CoordinatorRecord],
        *,
        is_unknown: bool,
    ) -> ConsumerMember:
        if instance_id is None:
            return joining_dynamic_member(group, member_id)
        if not is_unknown:
            return group.checked_member(member_id, instance_id)
        return joining_static_member(group, member_id, instance_id, records, is_classic=True)

    # -- between rebalances -----------------------------------------------------------------

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, client: Client
    ) -> Result[SyncGroupResponse]:
        member = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        _check_protocol(member, request)
        if (
            group.group_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            # One that gives up partitions first finishes that: it has joined again already.
            self._sessions.await_join(group.group_id, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._sessions.end_sync(group.group_id, member.member_id)
        self._sessions.extend(group.group_id, member)
        return Result(
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=embedded_assignment(
                    member, without_epochs(member.assigned), self._context.topics
                ),
            )
        )

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, client: Client
    ) -> Result[HeartbeatResponse]:
        member = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._sessions.extend(group.group_id, member)
        is_behind = member.member_epoch < group.group_epoch
        can_go_on = member.state is MemberState.UNREVOKED_PARTITIONS or (
            member.state is MemberState.UNRELEASED_PARTITIONS and not group.awaits_others(member)
        )
        if not (is_behind or can_go_on):
            return Result(HeartbeatResponse())
        self._sessions.await_join(group.group_id, member)
        return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    # -- leaving ----------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, client: Client
    ) -> Steps[Result[LeaveGroupResponse]]:
        """By an administrator, members of both protocols can be put out."""
        is_batch = client.api_version >= LEAVE_IN_BATCHES_SINCE
        identities = request.members if is_batch else [MemberIdentity(member_id=request.member_id)]
        leaving: dict[str, ConsumerMember] = {}
        answers: list[MemberResponse] = []
        for identity in identities:
            yield
            answer = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            answers.append(answer)
            try:
                member = _leaving_member(group, identity)
            except KafkaError as error:
                answer.error_code = error.code
                continue
            leaving[member.member_id] = member
            logger.info(
                "group %s: %s left (%s)",
                group.group_id,
                member.member_id,
                identity.reason or "gave no reason",
            )
        response = (
            LeaveGroupResponse(members=answers)
            if is_batch
            else LeaveGroupResponse(error_code=answers[0].error_code)
        )
        return (yield from self._departure.remove(group, list(leaving.values()), response))


def _subscription_of(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Members say the same with each of their protocols."""
    try:
        return decode_embedded(ConsumerProtocolSubscription, request.protocols[0].metadata)
    except MalformedMessage as error:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the subscription cannot be read: {error}"
        ) from error


def _with_request(
    member: ConsumerMember,
    request: JoinGroupRequest,
    client: Client,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        # JoinGroup v0 knows no time-out of rebalances.
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=client.id,
        client_host=client.host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in request.protocols
            ],
        ),
    )


def _joined(member: ConsumerMember, generation_id: int) -> JoinGroupResponse:
    """Without a leader: the broker assigns."""
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=generation_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic_protocols[0].name,
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember:
    member = group.checked_member(member_id, instance_id)
    if not member.uses_classic_protocol:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} does not speak the classic protocol"
        )
    return member


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    member_id = identity.member_id
    if not member_id and identity.group_instance_id is not None:
        # An administrator knows a static member by its instance id only.
        member_id = group.static_member_ids.get(identity.group_instance_id, "")
    return group.checked_member(member_id, identity.group_instance_id)


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.member_epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"{member.member_id} is in generation {member.member_epoch}, not {generation_id}",
        )


def _check_protocol(member: ConsumerMember, request: SyncGroupRequest) -> None:
    for named, actual in (
        (request.protocol_type, PROTOCOL_TYPE),
        (request.protocol_name, member.classic_protocols[0].name),
    ):
        if named is not None and named != actual:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group has {actual!r}, not {named!r}"
            )
