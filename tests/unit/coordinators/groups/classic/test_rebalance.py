"""When a classic group gives members up, and how it goes from one generation to the next."""

from __future__ import annotations

from typing import Any

from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.classic_groups import REBALANCE_MS, SESSION_MS, ClassicCoordinator

PATIENT: dict[str, Any] = {"session_timeout_ms": 600_000}
STATIC: dict[str, Any] = {"group_instance_id": "one", **PATIENT}


def error_of(response: object) -> str:
    return ErrorCode(response.error_code).name  # type: ignore[attr-defined]


def test_every_rebalance_is_a_new_generation_with_one_leader_who_sees_all() -> None:
    coordinator = ClassicCoordinator()
    ids = coordinator.stable_group({}, {}, {})

    for generation_id in range(2, 5):
        waiting = [coordinator.join(member_id) for member_id in ids]
        joined = [each.value for each in waiting]
        assert {each.generation_id for each in joined} == {generation_id}
        assert {each.leader for each in joined} == {ids[0]}, "who leads goes on to lead"
        assert [len(each.members) for each in joined] == [3, 0, 0]
        coordinator.sync_all(ids)


def test_a_member_that_is_lost_makes_the_others_rebalance() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group({}, {})
    coordinator.timers.advance(SESSION_MS - 1)
    coordinator.heartbeat(follower, 1)

    coordinator.timers.advance(1)

    assert coordinator.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.join(follower).value.leader == follower


def test_a_member_that_is_lost_while_the_group_gathers_is_waited_for_no_longer() -> None:
    coordinator = ClassicCoordinator()
    leader, _ = coordinator.stable_group({}, {})
    joined = coordinator.join(leader)

    coordinator.timers.advance(SESSION_MS)

    assert joined.value.generation_id == 2
    assert set(coordinator.group.members) == {leader}


def test_a_member_is_alive_while_it_waits_for_the_others() -> None:
    coordinator = ClassicCoordinator()
    leader, _ = coordinator.stable_group({}, PATIENT)
    joined = coordinator.join(leader)

    coordinator.timers.advance(REBALANCE_MS - 1)
    assert leader in coordinator.group.members
    coordinator.timers.advance(1)

    assert joined.value.generation_id == 2
    coordinator.timers.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(leader, 2) is ErrorCode.NONE, "its session began with the answer"


def test_a_member_is_alive_while_it_waits_for_the_leader() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group(PATIENT, {})
    coordinator.join(leader, **PATIENT)
    coordinator.join(follower)
    waiting = coordinator.sync(follower, 2)

    coordinator.timers.advance(3 * SESSION_MS)
    assert not waiting.is_resolved
    coordinator.sync(leader, 2, {follower: b"yours"})

    assert waiting.value.assignment == b"yours"
    coordinator.timers.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(follower, 2) is ErrorCode.NONE
    coordinator.timers.advance(SESSION_MS)
    assert coordinator.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_lost_while_it_waits_for_the_leader_is_given_up_later() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group(PATIENT, {})
    coordinator.join(leader, **PATIENT)
    coordinator.join(follower)
    coordinator.sync(follower, 2)
    coordinator.timers.advance(3 * SESSION_MS)
    coordinator.sync(leader, 2, {follower: b"yours"})

    coordinator.timers.advance(SESSION_MS)

    assert set(coordinator.group.members) == {leader}


def test_who_does_not_join_in_time_is_out() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group(PATIENT, PATIENT)
    joined = coordinator.join(follower, protocols={"range": b"new"}, **PATIENT)

    coordinator.timers.advance(REBALANCE_MS)

    assert joined.value.leader == follower
    assert len(joined.value.members) == 1
    assert error_of(coordinator.join(leader).value) == "UNKNOWN_MEMBER_ID"


def test_a_static_member_may_be_late_but_does_not_lead_then() -> None:
    coordinator = ClassicCoordinator()
    static, dynamic = coordinator.stable_group(STATIC, PATIENT)
    joined = coordinator.join(dynamic, protocols={"range": b"new"}, **PATIENT)

    coordinator.timers.advance(REBALANCE_MS)

    assert joined.value.leader == dynamic
    assert {member.member_id for member in joined.value.members} == {static, dynamic}
    assert coordinator.heartbeat(static, 1, group_instance_id="one") is (
        ErrorCode.ILLEGAL_GENERATION
    )


def test_a_group_of_static_members_waits_until_one_comes_or_their_sessions_end() -> None:
    coordinator = ClassicCoordinator()
    static, other = coordinator.stable_group(
        {**STATIC, "rebalance_timeout_ms": 10}, {"rebalance_timeout_ms": 10, **PATIENT}
    )

    coordinator.leave(other)
    coordinator.timers.advance(300_000)
    assert coordinator.group.state_name == "PreparingRebalance"
    coordinator.timers.advance(300_000)

    assert coordinator.group.state_name == "Empty"
    assert static not in coordinator.group.members
    assert coordinator.timers.rung_count < 1_000, "it looks for them with pauses"


def test_who_does_not_sync_in_time_is_out_and_the_others_join_again() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group(PATIENT, PATIENT)
    coordinator.join(leader, protocols={"range": b"new"}, **PATIENT)
    coordinator.join(follower, **PATIENT)
    waiting = coordinator.sync(follower, 2)

    coordinator.timers.advance(REBALANCE_MS)

    assert error_of(waiting.value) == "REBALANCE_IN_PROGRESS"
    assert set(coordinator.group.members) == {follower}
    assert coordinator.join(follower, **PATIENT).value.leader == follower


def test_a_follower_that_does_not_sync_is_out_of_a_stable_group_as_well() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group(PATIENT, PATIENT)
    coordinator.join(leader, protocols={"range": b"new"}, **PATIENT)
    coordinator.join(follower, **PATIENT)
    coordinator.sync(leader, 2, {leader: b"mine"})
    assert coordinator.group.state_name == "Stable"

    coordinator.timers.advance(REBALANCE_MS)

    assert set(coordinator.group.members) == {leader}
    assert coordinator.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_whose_members_have_all_synced_stays_stable() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group(PATIENT, PATIENT)
    assert len(coordinator.timers.names) == 2, "a session for each, and nothing else"

    coordinator.timers.advance(2 * REBALANCE_MS)

    assert coordinator.group.state_name == "Stable"
    assert set(coordinator.group.members) == {leader, follower}


def test_a_static_member_that_came_back_before_it_synced_is_not_given_up_twice() -> None:
    coordinator = ClassicCoordinator()
    leader, static = coordinator.stable_group(PATIENT, STATIC)
    coordinator.join(leader, protocols={"range": b"new"}, **PATIENT)
    coordinator.timers.advance(REBALANCE_MS)
    coordinator.sync(leader, 2, {leader: b"mine", static: b"kept"})
    joined = coordinator.join(**STATIC).value
    assert coordinator.sync(joined.member_id, 2).value.assignment == b"kept"

    coordinator.timers.advance(REBALANCE_MS)

    assert coordinator.group.state_name == "Stable"


def test_all_who_came_to_a_new_group_may_leave_again() -> None:
    coordinator = ClassicCoordinator({"group.initial.rebalance.delay.ms": "3000"})
    member_id = coordinator.new_member_id()
    joined = coordinator.join(member_id)

    coordinator.leave(member_id)
    coordinator.timers.advance(3_000)

    assert error_of(joined.value) == "UNKNOWN_MEMBER_ID"
    assert coordinator.group.state_name == "Empty"


def test_a_group_that_is_empty_although_that_could_not_be_written_goes_on() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable_group({})
    coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    coordinator.timers.advance(SESSION_MS)
    assert coordinator.group.state_name == "Empty"
    generation_id = coordinator.group.generation_id
    coordinator.timers.advance(SESSION_MS)

    assert coordinator.group.generation_id == generation_id
    coordinator.failure = None
    coordinator.stable_group({})
    assert coordinator.group.generation_id == generation_id + 1


def test_the_second_ring_of_a_join_timer_does_nothing() -> None:
    coordinator = ClassicCoordinator({"group.initial.rebalance.delay.ms": "3000"})
    member_id = coordinator.new_member_id()
    coordinator.join(member_id)
    coordinator.leave(member_id)
    coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    coordinator.timers.advance(60_000)

    assert coordinator.group.state_name == "Empty"
    assert coordinator.group.generation_id == 1
