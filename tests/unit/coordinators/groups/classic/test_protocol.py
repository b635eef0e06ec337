"""SyncGroup, Heartbeat, LeaveGroup, commits and descriptions of a classic group, and its log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.context import Client
from ottla.coordinators.groups.records import GroupMetadataKey, GroupMetadataValue
from ottla.coordinators.result import Deferred
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import at_once
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.support.classic_groups import GROUP, SESSION_MS, ClassicCoordinator

STATIC: dict[str, Any] = {"group_instance_id": "one"}
FAILURE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas")


def error_of(response: object) -> str:
    return ErrorCode(response.error_code).name  # type: ignore[attr-defined]


def joined_group(coordinator: ClassicCoordinator, count: int = 2) -> list[str]:
    """Members of generation 1, which the first is to assign."""
    ids = [coordinator.new_member_id() for _ in range(count)]
    waiting = [coordinator.join(member_id) for member_id in ids]
    coordinator.timers.advance()
    assert all(joined.value.generation_id == 1 for joined in waiting)
    return ids


# -- SyncGroup ------------------------------------------------------------------------------------


def test_members_wait_for_the_leader_and_get_what_it_assigned() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)

    waiting = coordinator.sync(follower, 1)
    assert not waiting.is_resolved
    synced = coordinator.sync(leader, 1, {leader: b"mine", follower: b"yours"}).value

    assert (synced.assignment, waiting.value.assignment) == (b"mine", b"yours")
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert coordinator.group.state_name == "Stable"


def test_who_syncs_after_the_leader_is_answered_at_once_and_as_often_as_it_asks() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)
    coordinator.sync(leader, 1, {leader: b"mine", follower: b"yours"})

    assert coordinator.sync(follower, 1).value.assignment == b"yours"
    assert coordinator.sync(follower, 1).value.assignment == b"yours"


def test_whom_the_leader_forgot_owns_nothing() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)

    coordinator.sync(leader, 1, {leader: b"mine", "stranger": b"lost"})

    assert coordinator.sync(follower, 1).value.assignment == b""
    assert set(coordinator.group.members) == {leader, follower}


def test_sync_is_refused_by_member_generation_and_state() -> None:
    coordinator = ClassicCoordinator()
    assert error_of(coordinator.sync("nobody", 1).value) == "UNKNOWN_MEMBER_ID"
    leader, follower = coordinator.stable_group({}, {})

    assert error_of(coordinator.sync("nobody", 1).value) == "UNKNOWN_MEMBER_ID"
    assert error_of(coordinator.sync(leader, 0).value) == "ILLEGAL_GENERATION"
    assert error_of(coordinator.sync(leader, 1, **STATIC).value) == "UNKNOWN_MEMBER_ID"
    coordinator.join(leader)
    assert error_of(coordinator.sync(follower, 1).value) == "REBALANCE_IN_PROGRESS"
    coordinator.leave(leader, follower)
    assert coordinator.group.is_empty
    assert error_of(coordinator.sync(leader, 2).value) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("named", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
def test_sync_must_name_the_protocol_of_the_group(named: dict[str, Any]) -> None:
    coordinator = ClassicCoordinator()
    (leader,) = coordinator.stable_group({})

    assert error_of(coordinator.sync(leader, 1, **named).value) == "INCONSISTENT_GROUP_PROTOCOL"


def test_sync_of_an_older_version_names_no_protocol() -> None:
    coordinator = ClassicCoordinator()
    (leader,) = coordinator.stable_group({})

    synced = coordinator.sync(leader, 1, version=4, protocol_type=None, protocol_name=None)

    assert error_of(synced.value) == "NONE"


def test_a_sync_that_is_sent_again_leaves_none_unanswered() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)
    first = coordinator.sync(follower, 1)
    second = coordinator.sync(follower, 1)

    coordinator.sync(leader, 1, {follower: b"yours"})

    assert error_of(first.value) == "REBALANCE_IN_PROGRESS"
    assert second.value.assignment == b"yours"


def test_an_assignment_that_cannot_be_written_makes_the_members_join_again() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)
    waiting = coordinator.sync(follower, 1)
    coordinator.failure = FAILURE

    synced = coordinator.sync(leader, 1, {leader: b"mine"})

    assert error_of(synced.value) == error_of(waiting.value) == "COORDINATOR_NOT_AVAILABLE"
    assert coordinator.group.state_name == "PreparingRebalance"
    coordinator.failure = None
    coordinator.join(leader)
    assert coordinator.join(follower).value.generation_id == 2


# -- Heartbeat ------------------------------------------------------------------------------------


def test_heartbeat_tells_a_member_how_the_group_is() -> None:
    coordinator = ClassicCoordinator()
    assert coordinator.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = joined_group(coordinator)
    assert coordinator.heartbeat(follower, 1) is ErrorCode.NONE, "it has to sync, not to join"
    coordinator.sync_all([leader, follower])

    assert coordinator.heartbeat(follower, 1) is ErrorCode.NONE
    assert coordinator.heartbeat(follower, 0) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(follower, 1, **STATIC) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.join(leader)
    assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeat_of_a_pending_member_is_unknown() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group({})

    pending = coordinator.new_member_id()

    assert coordinator.heartbeat(pending, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_stays_as_long_as_its_heartbeats_come() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group({})

    for _ in range(5):
        coordinator.timers.advance(SESSION_MS - 1)
        assert coordinator.heartbeat(member, 1) is ErrorCode.NONE
    coordinator.timers.advance(SESSION_MS)

    assert coordinator.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.group.state_name == "Empty"
    assert coordinator.group.generation_id == 2


# -- LeaveGroup -----------------------------------------------------------------------------------


def test_who_leaves_makes_the_others_rebalance() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group({}, {})

    left = coordinator.leave(leader)

    assert [error_of(member) for member in left.members] == ["NONE"]
    assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = coordinator.join(follower).value
    assert (joined.generation_id, joined.leader) == (2, follower)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_old_leave_has_one_member_and_one_error(version: int) -> None:
    coordinator = ClassicCoordinator()
    assert error_of(coordinator.leave("nobody", version=version)) == "UNKNOWN_MEMBER_ID"
    (member,) = coordinator.stable_group({})

    left = coordinator.leave(member, version=version)

    assert error_of(left) == "NONE"
    assert left.members == []
    assert error_of(coordinator.leave(member, version=version)) == "UNKNOWN_MEMBER_ID"


def test_many_leave_at_once_each_with_its_own_error() -> None:
    coordinator = ClassicCoordinator()
    leader, static, other = coordinator.stable_group({}, STATIC, {})
    pending = coordinator.new_member_id()

    left = coordinator.leave(
        leader,
        "nobody",
        MemberIdentity(member_id="", group_instance_id="one", reason="by an administrator"),
        MemberIdentity(member_id="", group_instance_id="two"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id="impostor", group_instance_id="one"),
        pending,
        leader,
    )

    assert [(member.member_id, error_of(member)) for member in left.members] == [
        (leader, "NONE"),
        ("nobody", "UNKNOWN_MEMBER_ID"),
        ("", "NONE"),
        ("", "UNKNOWN_MEMBER_ID"),
        ("", "UNKNOWN_MEMBER_ID"),
        ("impostor", "UNKNOWN_MEMBER_ID"),
        (pending, "NONE"),
        (leader, "UNKNOWN_MEMBER_ID"),
    ]
    assert left.members[2].group_instance_id == "one"
    assert static not in coordinator.group.members
    assert set(coordinator.group.members) == {other}
    assert not coordinator.group.pending_members


def test_a_static_member_is_not_removed_under_the_id_of_another() -> None:
    coordinator = ClassicCoordinator()
    (static,) = coordinator.stable_group(STATIC)

    left = coordinator.leave(MemberIdentity(member_id="impostor", group_instance_id="one"))

    assert error_of(left.members[0]) == "FENCED_INSTANCE_ID"
    assert set(coordinator.group.members) == {static}


def test_a_group_that_everyone_left_is_empty_in_the_log() -> None:
    coordinator = ClassicCoordinator()
    ids = coordinator.stable_group({}, {})

    coordinator.leave(*ids)

    assert coordinator.group.state_name == "Empty"
    coordinator.reload()
    assert coordinator.group.state_name == "Empty"
    assert coordinator.group.generation_id == 2
    assert coordinator.group.protocol_type == "consumer"
    assert coordinator.group.members == {}


def test_a_member_that_leaves_is_answered_what_it_waits_for() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)
    synced = coordinator.sync(follower, 1)
    coordinator.leave(follower)
    assert error_of(synced.value) == "UNKNOWN_MEMBER_ID"

    joined = coordinator.join(coordinator.new_member_id())
    assert coordinator.group.state_name == "PreparingRebalance"
    (waiting,) = set(coordinator.group.members) - {leader}
    coordinator.leave(waiting)
    assert error_of(joined.value) == "UNKNOWN_MEMBER_ID"
    assert joined.value.member_id == ""


def test_the_last_that_was_missing_leaves_and_the_rebalance_goes_on() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group({}, {})
    joined = coordinator.join(leader)

    coordinator.leave(follower)

    assert joined.value.generation_id == 2


# -- commits --------------------------------------------------------------------------------------


def test_only_the_present_generation_commits() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)
    assert coordinator.commit(follower, 1) == "REBALANCE_IN_PROGRESS", "it owns nothing yet"
    coordinator.sync_all([leader, follower])

    assert coordinator.commit(follower, 1) == "NONE"
    assert coordinator.commit(follower, 0) == "ILLEGAL_GENERATION"
    assert coordinator.commit(follower, -1) == "ILLEGAL_GENERATION"
    assert coordinator.commit("nobody", 1) == "UNKNOWN_MEMBER_ID"
    assert coordinator.commit("", 1) == "UNKNOWN_MEMBER_ID"
    assert coordinator.commit("", -1) == "UNKNOWN_MEMBER_ID"
    assert coordinator.commit("", -1, "one") == "UNKNOWN_MEMBER_ID"
    coordinator.join(leader)
    assert coordinator.commit(follower, 1) == "NONE", "what it read so far"


def test_without_members_anyone_commits_who_claims_no_generation() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group({})
    coordinator.leave(member)

    assert coordinator.commit("", -1) == "NONE"
    assert coordinator.commit(member, -1) == "NONE"
    assert coordinator.commit(member, 1) == "UNKNOWN_MEMBER_ID"
    assert coordinator.commit("", 2) == "UNKNOWN_MEMBER_ID"


def test_a_commit_is_a_sign_of_life() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group({})
    coordinator.timers.advance(SESSION_MS - 1)

    coordinator.commit(member, 1)
    coordinator.timers.advance(SESSION_MS - 1)

    assert coordinator.heartbeat(member, 1) is ErrorCode.NONE


# -- descriptions ---------------------------------------------------------------------------------


def test_a_stable_group_is_described_with_what_its_members_said_and_own() -> None:
    coordinator = ClassicCoordinator()
    leader, static = coordinator.stable_group({"client_id": "app"}, STATIC)

    described = coordinator.protocol.describe(coordinator.group)

    assert (described.group_id, described.group_state) == (GROUP, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    first, second = described.members
    assert (first.member_id, first.client_id, first.client_host) == (leader, "app", "/10.0.0.1")
    assert (first.member_metadata, first.member_assignment) == (b"metadata", b"0")
    assert (second.member_id, second.group_instance_id) == (static, "one")


def test_a_group_that_rebalances_is_described_without_its_protocol() -> None:
    coordinator = ClassicCoordinator()
    leader, _ = coordinator.stable_group({}, {})
    coordinator.join(leader)

    described = coordinator.protocol.describe(coordinator.group)

    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in described.members] == [b"", b""]


# -- the log --------------------------------------------------------------------------------------


def test_a_stable_group_goes_on_after_a_reload_without_a_rebalance() -> None:
    coordinator = ClassicCoordinator()
    leader, static = coordinator.stable_group({}, STATIC)
    before = coordinator.protocol.describe(coordinator.group)

    coordinator.reload()

    assert coordinator.protocol.describe(coordinator.group) == before
    assert coordinator.group.leader_id == leader
    assert coordinator.heartbeat(leader, 1) is ErrorCode.NONE
    assert coordinator.sync(static, 1, **STATIC).value.assignment == b"1"
    assert coordinator.commit(static, 1, "one") == "NONE"


def test_sessions_begin_when_a_group_is_loaded() -> None:
    coordinator = ClassicCoordinator()
    leader, _ = coordinator.stable_group({}, {})
    coordinator.reload()

    coordinator.timers.advance(SESSION_MS - 1)
    coordinator.heartbeat(leader, 1)
    coordinator.timers.advance(1)

    assert set(coordinator.group.members) == {leader}
    assert coordinator.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_generation_that_was_not_assigned_is_forgotten_in_a_crash() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group({}, {})
    coordinator.join(leader)
    assert coordinator.join(follower).value.generation_id == 2

    coordinator.reload()

    assert coordinator.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.group.generation_id == 1


def test_who_waits_is_told_to_look_for_the_coordinator_when_it_moves() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = joined_group(coordinator)
    syncing = coordinator.sync(follower, 1)
    coordinator.reload()
    assert error_of(syncing.value) == "NOT_COORDINATOR"

    leader, _ = coordinator.stable_group({}, {})
    joining = coordinator.join(leader)
    coordinator.reload()
    assert error_of(joining.value) == "NOT_COORDINATOR"
    assert joining.value.member_id == leader


def test_an_append_that_ends_after_the_coordinator_moved_changes_nothing() -> None:
    coordinator = ClassicCoordinator()
    (leader,) = joined_group(coordinator, 1)
    group = coordinator.group
    request = SyncGroupRequest(
        group_id=GROUP,
        member_id=leader,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
    )
    result = at_once(coordinator.protocol.sync(request, Client("app", "/10.0.0.1", 5)))
    coordinator.timers.cancel_all()
    coordinator.protocol.unloaded()

    (record,) = result.records
    assert isinstance(record.key, GroupMetadataKey)
    assert isinstance(record.value, GroupMetadataValue)
    coordinator.protocol.replay_group(record.key, record.value)
    assert result.on_failed is not None
    result.on_failed(FAILURE)

    assert isinstance(result.response, Deferred)
    assert error_of(result.response.value) == "NOT_COORDINATOR"
    assert group.state_name == "Dead"
    assert not coordinator.timers.names


def test_a_record_that_is_replayed_after_the_coordinator_moved_starts_no_timer() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group({})
    record = coordinator.records[-1]
    assert isinstance(record.key, GroupMetadataKey)
    assert isinstance(record.value, GroupMetadataValue)
    coordinator = ClassicCoordinator()
    coordinator.protocol.unloaded()

    coordinator.protocol.replay_group(record.key, record.value)

    assert not coordinator.timers.names


def test_a_deleted_group_is_gone_with_its_timers() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group({})
    coordinator.leave(member)
    pending = coordinator.new_member_id()
    group = coordinator.group

    for record in coordinator.protocol.delete(group):
        assert isinstance(record.key, GroupMetadataKey)
        assert record.value is None
        coordinator.protocol.replay_group(record.key, None)

    assert GROUP not in coordinator.context.groups
    assert group.state_name == "Dead"
    assert not coordinator.timers.names
    assert error_of(coordinator.join(pending).value) == "UNKNOWN_MEMBER_ID"


def test_members_of_a_group_that_turns_into_another_kind_join_again() -> None:
    coordinator = ClassicCoordinator()
    leader, _ = coordinator.stable_group({}, {})
    joining = coordinator.join(leader)

    coordinator.protocol.replay_group(GroupMetadataKey(group=GROUP), None)

    assert error_of(joining.value) == "REBALANCE_IN_PROGRESS"


# -- from and to consumer groups ------------------------------------------------------------------


def test_an_empty_consumer_group_gives_way_with_its_tombstones() -> None:
    coordinator = ClassicCoordinator()
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    other = object()
    coordinator.context.groups[GROUP] = other  # type: ignore[assignment]
    tombstones = coordinator.protocol.delete(ClassicGroup("any", now_ms=0))

    result = coordinator.protocol.join(request, Client("app", "/10.0.0.1", 9), tombstones)

    assert list(result.records)[:1] == tombstones
    assert len(result.records) == 2
    assert coordinator.group.state_name == "Empty"
    assert result.on_failed is not None
    result.on_failed(FAILURE)
    assert coordinator.context.groups[GROUP] is other


def test_a_group_that_is_replayed_while_serving_has_sessions() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group({}, {})
    record = coordinator.records[-1]
    assert isinstance(record.key, GroupMetadataKey)
    assert isinstance(record.value, GroupMetadataValue)
    coordinator = ClassicCoordinator()

    coordinator.protocol.replay_group(record.key, record.value)

    assert coordinator.group.state_name == "Stable"
    coordinator.timers.advance(SESSION_MS)
    assert coordinator.group.is_empty
