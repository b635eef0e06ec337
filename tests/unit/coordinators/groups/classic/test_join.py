"""JoinGroup: who enters a classic group, and who is told what."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinators.groups.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.classic_groups import GROUP, REBALANCE_MS, SESSION_MS, ClassicCoordinator

DISK_FULL = KafkaError(ErrorCode.NOT_COORDINATOR, "the log is gone")


def error_of(response: object) -> str:
    return ErrorCode(response.error_code).name  # type: ignore[attr-defined]


# -- ids ------------------------------------------------------------------------------------------


def test_a_new_member_is_given_an_id_to_come_again_with() -> None:
    coordinator = ClassicCoordinator()

    refused = coordinator.join(client_id="app").value

    assert error_of(refused) == "MEMBER_ID_REQUIRED"
    assert refused.member_id.startswith("app-")
    assert len(refused.member_id) == len("app-") + 36
    joined = coordinator.join(refused.member_id)
    coordinator.timers.advance()
    assert joined.value.member_id == refused.member_id
    assert joined.value.generation_id == 1


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_old_client_is_a_member_at_once(version: int) -> None:
    coordinator = ClassicCoordinator()

    joined = coordinator.join(version=version, client_id="old")
    coordinator.timers.advance()

    assert error_of(joined.value) == "NONE"
    assert joined.value.leader == joined.value.member_id
    assert joined.value.member_id.startswith("old-")


def test_an_id_that_nobody_came_with_expires_and_no_longer_holds_up_a_rebalance() -> None:
    coordinator = ClassicCoordinator()
    (leader,) = coordinator.stable_group({})
    pending = coordinator.new_member_id()
    joined = coordinator.join(leader)
    assert not joined.is_resolved, "one with an id is on its way"

    coordinator.timers.advance(SESSION_MS)

    assert joined.value.generation_id == 2
    assert error_of(coordinator.join(pending).value) == "UNKNOWN_MEMBER_ID"


def test_an_unknown_id_is_refused_in_a_group_and_where_there_is_none() -> None:
    coordinator = ClassicCoordinator()

    assert error_of(coordinator.join("nobody").value) == "UNKNOWN_MEMBER_ID"
    assert GROUP not in coordinator.context.groups

    coordinator.stable_group({})
    assert error_of(coordinator.join("nobody").value) == "UNKNOWN_MEMBER_ID"


def test_a_pending_member_cannot_turn_static() -> None:
    coordinator = ClassicCoordinator()
    pending = coordinator.new_member_id()

    joined = coordinator.join(pending, group_instance_id="one").value

    assert error_of(joined) == "UNKNOWN_SERVER_ERROR"


# -- what a request must say ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session_timeout_ms", "error"),
    [
        (5_999, "INVALID_SESSION_TIMEOUT"),
        (6_000, "MEMBER_ID_REQUIRED"),
        (1_800_000, "MEMBER_ID_REQUIRED"),
        (1_800_001, "INVALID_SESSION_TIMEOUT"),
    ],
)
def test_a_session_timeout_has_bounds(session_timeout_ms: int, error: str) -> None:
    joined = ClassicCoordinator().join(session_timeout_ms=session_timeout_ms).value

    assert error_of(joined) == error


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": {}}])
def test_the_first_member_must_name_a_protocol(fields: dict[str, Any]) -> None:
    joined = ClassicCoordinator().join(**fields).value

    assert error_of(joined) == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_member_must_share_type_and_one_protocol_with_all_others() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group({"protocols": {"range": b"", "sticky": b""}})

    assert error_of(coordinator.join(protocol_type="connect").value) == (
        "INCONSISTENT_GROUP_PROTOCOL"
    )
    assert error_of(coordinator.join(protocols={"other": b""}).value) == (
        "INCONSISTENT_GROUP_PROTOCOL"
    )
    assert error_of(coordinator.join(protocols={"other": b"", "sticky": b""}).value) == (
        "MEMBER_ID_REQUIRED"
    )


def test_version_0_has_the_session_timeout_for_rebalances() -> None:
    coordinator = ClassicCoordinator()
    coordinator.join(version=0, rebalance_timeout_ms=-1)

    assert coordinator.group.rebalance_timeout_ms == SESSION_MS


@pytest.mark.parametrize(("version", "none"), [(6, ""), (7, None), (9, None)])
def test_no_protocol_is_empty_or_null_by_the_version(version: int, none: str | None) -> None:
    coordinator = ClassicCoordinator()

    assert coordinator.join(version=version).value.protocol_name == none


def test_a_waiting_member_is_answered_in_its_own_version() -> None:
    coordinator = ClassicCoordinator()
    old = coordinator.join(version=0)
    new = coordinator.join(coordinator.new_member_id())

    coordinator.timers.cancel_all()
    coordinator.protocol.unloaded()

    assert error_of(old.value) == "NOT_COORDINATOR"
    assert old.value.protocol_name == ""
    assert new.value.protocol_name is None


# -- how many -------------------------------------------------------------------------------------


def test_a_full_group_takes_no_more() -> None:
    coordinator = ClassicCoordinator({"group.max.size": "2"})
    first, _ = coordinator.stable_group({}, {})

    refused = coordinator.join().value

    assert error_of(refused) == "GROUP_MAX_SIZE_REACHED"
    assert refused.member_id == ""
    assert error_of(coordinator.sync(first, 1).value) == "NONE"


def test_who_comes_last_is_left_out_of_a_group_that_was_made_smaller() -> None:
    coordinator = ClassicCoordinator()
    first, second, third = coordinator.stable_group({}, {}, {})
    coordinator.config = ClassicCoordinator({"group.max.size": "2"}).config
    one = coordinator.join(first)
    two = coordinator.join(second)

    refused = coordinator.join(third).value

    assert error_of(refused) == "GROUP_MAX_SIZE_REACHED"
    assert one.value.generation_id == two.value.generation_id == 2
    assert set(coordinator.group.members) == {first, second}
    assert not any(third in name for name in coordinator.timers.names)


def test_a_group_that_is_too_large_when_it_is_loaded_rebalances() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group({}, {}, {})
    coordinator.config = ClassicCoordinator({"group.max.size": "2"}).config

    coordinator.reload()

    assert coordinator.group.state_name == "PreparingRebalance"


# -- coming back ----------------------------------------------------------------------------------


def test_a_follower_with_the_same_metadata_gets_its_generation_again() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group({}, {})

    joined = coordinator.join(follower).value

    assert (joined.generation_id, joined.leader, joined.members) == (1, leader, [])
    assert joined.protocol_name == "range"
    assert coordinator.group.state_name == "Stable"


def test_a_follower_with_new_metadata_makes_the_group_rebalance() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group({}, {})

    joined = coordinator.join(follower, protocols={"range": b"more topics"})

    assert not joined.is_resolved
    assert coordinator.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = coordinator.join(leader)
    assert {member.metadata for member in again.value.members} == {b"metadata", b"more topics"}


def test_a_leader_that_joins_again_makes_the_group_rebalance() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group({}, {})

    joined = coordinator.join(leader)

    assert not joined.is_resolved
    assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_missed_the_answer_gets_it_again_while_the_leader_assigns() -> None:
    coordinator = ClassicCoordinator()
    ids = [coordinator.new_member_id(), coordinator.new_member_id()]
    first = [coordinator.join(member_id) for member_id in ids]
    coordinator.timers.advance()

    again = [coordinator.join(member_id).value for member_id in ids]

    assert again == [joined.value for joined in first]
    assert len(again[0].members) == 2


def test_new_metadata_while_the_leader_assigns_begins_the_rebalance_anew() -> None:
    coordinator = ClassicCoordinator()
    ids = [coordinator.new_member_id(), coordinator.new_member_id()]
    for member_id in ids:
        coordinator.join(member_id)
    coordinator.timers.advance()
    waiting = coordinator.sync(ids[1], 1)

    coordinator.join(ids[0], protocols={"range": b"other"})

    assert error_of(waiting.value) == "REBALANCE_IN_PROGRESS"
    assert coordinator.group.state_name == "PreparingRebalance"


def test_a_request_that_is_sent_again_leaves_none_unanswered() -> None:
    coordinator = ClassicCoordinator()
    leader, _ = coordinator.stable_group({}, {})
    first = coordinator.join(leader)

    second = coordinator.join(leader)

    assert error_of(first.value) == "REBALANCE_IN_PROGRESS"
    assert not second.is_resolved
    assert coordinator.group.awaiting_join_count == 1


def test_a_new_member_that_waits_too_long_is_given_up() -> None:
    coordinator = ClassicCoordinator()
    leader, _ = coordinator.stable_group(
        {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1_800_000}, {}
    )
    joined = coordinator.join(coordinator.new_member_id())

    coordinator.timers.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)

    assert error_of(joined.value) == "UNKNOWN_MEMBER_ID"
    assert set(coordinator.group.members) == {leader}


# -- static members -------------------------------------------------------------------------------

STATIC: dict[str, Any] = {"group_instance_id": "one"}


def test_a_static_member_joins_at_once_under_an_id_with_its_instance() -> None:
    coordinator = ClassicCoordinator()

    joined = coordinator.join(**STATIC)
    coordinator.timers.advance()

    assert joined.value.member_id.startswith("one-")
    assert joined.value.members[0].group_instance_id == "one"


def test_a_static_member_comes_back_to_what_it_owned_without_a_rebalance() -> None:
    coordinator = ClassicCoordinator()
    leader, former = coordinator.stable_group({}, STATIC)

    joined = coordinator.join(**STATIC).value

    assert error_of(joined) == "NONE"
    assert joined.member_id != former
    assert (joined.generation_id, joined.leader, joined.members) == (1, leader, [])
    assert joined.skip_assignment is False
    assert coordinator.group.state_name == "Stable"
    assert coordinator.sync(joined.member_id, 1).value.assignment == b"1"
    coordinator.reload()
    assert set(coordinator.group.members) == {leader, joined.member_id}
    assert coordinator.group.members[joined.member_id].assignment == b"1"


def test_the_former_process_of_a_static_member_is_fenced() -> None:
    coordinator = ClassicCoordinator()
    _, former = coordinator.stable_group({}, STATIC)
    coordinator.join(**STATIC)

    assert coordinator.heartbeat(former, 1, **STATIC) is ErrorCode.FENCED_INSTANCE_ID
    assert error_of(coordinator.sync(former, 1, **STATIC).value) == "FENCED_INSTANCE_ID"
    assert error_of(coordinator.join(former, **STATIC).value) == "FENCED_INSTANCE_ID"
    assert coordinator.commit(former, 1, "one") == "FENCED_INSTANCE_ID"
    assert coordinator.heartbeat(former, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_of_the_former_process_ends_without_effect() -> None:
    coordinator = ClassicCoordinator()
    (former,) = coordinator.stable_group({**STATIC, "session_timeout_ms": 6_000})
    joined = coordinator.join(**STATIC, session_timeout_ms=30_000).value
    assert len(coordinator.timers.names) == 1

    coordinator.timers.advance(29_999)

    assert coordinator.heartbeat(joined.member_id, 1) is ErrorCode.NONE
    assert former not in coordinator.group.members


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group(STATIC, {})

    joined = coordinator.join(**STATIC).value

    assert joined.skip_assignment is True
    assert joined.leader == joined.member_id
    assert len(joined.members) == 2


def test_an_older_static_leader_is_not_told_that_it_leads() -> None:
    coordinator = ClassicCoordinator()
    former, _ = coordinator.stable_group(STATIC, {})

    joined = coordinator.join(**STATIC, version=8).value

    assert joined.leader == former
    assert joined.members == []
    assert coordinator.group.leader_id == joined.member_id


def test_a_static_member_that_changes_the_protocol_of_all_makes_them_rebalance() -> None:
    coordinator = ClassicCoordinator()
    both = {"range": b"", "sticky": b""}
    coordinator.stable_group({"protocols": both}, {**STATIC, "protocols": both})

    joined = coordinator.join(**STATIC, protocols={"sticky": b""})

    assert not joined.is_resolved
    assert coordinator.group.state_name == "PreparingRebalance"


def test_a_static_member_that_comes_back_while_the_leader_assigns_begins_anew() -> None:
    coordinator = ClassicCoordinator()
    leader = coordinator.join(coordinator.new_member_id())
    former = coordinator.join(**STATIC)
    coordinator.timers.advance()
    waiting = coordinator.sync(former.value.member_id, 1, **STATIC)

    joined = coordinator.join(**STATIC)

    assert error_of(waiting.value) == "FENCED_INSTANCE_ID"
    assert not joined.is_resolved
    coordinator.join(leader.value.member_id)
    assert joined.value.generation_id == 2


def test_a_static_member_that_comes_back_while_the_group_gathers_is_there_once() -> None:
    coordinator = ClassicCoordinator()
    leader, former = coordinator.stable_group({}, STATIC)
    coordinator.join(leader)
    coordinator.join(coordinator.new_member_id())
    waiting = coordinator.join(former, **STATIC)
    assert waiting.is_resolved, "all had joined"
    again = coordinator.join(coordinator.group.leader_id or "", protocols={"range": b"new"})
    waiting = coordinator.join(former, **STATIC)

    joined = coordinator.join(**STATIC)

    assert error_of(waiting.value) == "FENCED_INSTANCE_ID"
    assert waiting.value.member_id == former
    assert not again.is_resolved
    assert not joined.is_resolved
    assert len(coordinator.group.members) == 3


def test_a_static_member_with_an_id_of_its_own_must_be_known() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group({})

    assert error_of(coordinator.join("stranger", **STATIC).value) == "UNKNOWN_MEMBER_ID"


def test_a_replacement_that_cannot_be_written_is_taken_back() -> None:
    coordinator = ClassicCoordinator()
    former, _ = coordinator.stable_group({**STATIC, "session_timeout_ms": 20_000}, {})
    coordinator.failure = DISK_FULL

    with pytest.raises(KafkaError):
        coordinator.join(**STATIC, protocols={"range": b"new"})

    assert coordinator.group.leader_id == former
    assert coordinator.heartbeat(former, 1, **STATIC) is ErrorCode.NONE
    member = coordinator.group.members[former]
    assert member.metadata("range") == b"metadata"
    assert member.session_timeout_ms == 20_000


# -- a new group ----------------------------------------------------------------------------------


def test_a_new_group_is_in_the_log_before_its_first_member_hears_of_it() -> None:
    coordinator = ClassicCoordinator()

    coordinator.join()

    assert len(coordinator.log) == 1
    coordinator.reload()
    assert coordinator.group.state_name == "Empty"
    assert coordinator.group.generation_id == 0


@pytest.mark.parametrize("version", [3, 4])
def test_a_new_group_that_cannot_be_written_is_not_there(version: int) -> None:
    coordinator = ClassicCoordinator()
    coordinator.failure = DISK_FULL

    if version < 4:
        assert error_of(coordinator.join(version=version).value) == "NOT_COORDINATOR"
    else:
        with pytest.raises(KafkaError):
            coordinator.join(version=version)

    assert GROUP not in coordinator.context.groups
    assert not coordinator.timers.names


def test_members_of_a_new_group_are_waited_for() -> None:
    coordinator = ClassicCoordinator({"group.initial.rebalance.delay.ms": "3000"})
    first = coordinator.join(coordinator.new_member_id())
    coordinator.timers.advance(2_999)
    second = coordinator.join(coordinator.new_member_id())
    coordinator.timers.advance(1)
    assert not first.is_resolved, "somebody came, more may"

    coordinator.timers.advance(3_000)

    assert first.value.generation_id == second.value.generation_id == 1
    assert len(first.value.members) == 2


def test_members_of_a_new_group_are_waited_for_no_longer_than_a_rebalance_may_take() -> None:
    coordinator = ClassicCoordinator({"group.initial.rebalance.delay.ms": "3000"})
    waiting = [coordinator.join(coordinator.new_member_id(), rebalance_timeout_ms=7_000)]

    for _ in range(6):
        coordinator.timers.advance(1_000)
        waiting.append(coordinator.join(coordinator.new_member_id(), rebalance_timeout_ms=7_000))
    assert not waiting[0].is_resolved
    coordinator.timers.advance(1_000)

    assert all(joined.value.generation_id == 1 for joined in waiting)


def test_the_rebalance_timeout_is_the_longest_of_all_members() -> None:
    coordinator = ClassicCoordinator()
    leader, slow = coordinator.stable_group(
        {"rebalance_timeout_ms": 20_000, "session_timeout_ms": 600_000},
        {"rebalance_timeout_ms": REBALANCE_MS, "session_timeout_ms": 600_000},
    )
    joined = coordinator.join(leader, session_timeout_ms=600_000)

    coordinator.timers.advance(REBALANCE_MS - 1)
    assert not joined.is_resolved
    coordinator.timers.advance(1)

    assert joined.value.generation_id == 2
    assert coordinator.heartbeat(slow, 1) is ErrorCode.UNKNOWN_MEMBER_ID
