from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from tests.support.consumer_groups import ConsumerCoordinator, of_t

SESSION_MS = 45_000


def test_an_instance_id_in_use_is_not_given_away() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    assert coordinator.error(coordinator.join, "b", "t", instance_id="i") == (
        ErrorCode.UNRELEASED_INSTANCE_ID
    )


def test_a_static_member_that_comes_back_has_what_it_had() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    coordinator.join("b", "t")
    coordinator.heartbeat("a", 2, instance_id="i")
    coordinator.heartbeat("a", 2, instance_id="i", owned=of_t(0, 1))
    coordinator.heartbeat("b", 3)
    away = coordinator.heartbeat("a", -2, instance_id="i")
    assert away.member_epoch == -2
    assert coordinator.heartbeat("b", 3).assignment is None
    epoch = coordinator.group.group_epoch

    back = coordinator.join("c", "t", instance_id="i")
    assert back.member_epoch == epoch
    assert back.assignment is not None
    assert coordinator.named(back.assignment.topic_partitions) == of_t(0, 1)
    assert set(coordinator.group.members) == {"b", "c"}
    assert coordinator.group.state_name == "Stable"


def test_a_static_member_may_come_back_under_the_same_id() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    coordinator.heartbeat("a", -2, instance_id="i")
    back = coordinator.join("a", "t", instance_id="i")
    assert back.member_epoch == 2
    coordinator.timers.advance(SESSION_MS - 1)
    assert "a" in coordinator.group.members
    coordinator.timers.advance(1)
    assert coordinator.group.is_empty


def test_a_static_member_that_does_not_come_back_is_put_out() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    coordinator.heartbeat("a", -2, instance_id="i")
    assert coordinator.error(coordinator.heartbeat, "a", 2, instance_id="i") == (
        ErrorCode.FENCED_MEMBER_EPOCH
    )
    coordinator.timers.advance(SESSION_MS)
    assert coordinator.group.is_empty
    assert coordinator.group.static_member_ids == {}


def test_a_static_member_that_leaves_for_good_gives_its_instance_id_free() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    coordinator.leave("a", instance_id="i")
    assert coordinator.join("b", "t", instance_id="i").member_epoch == 4


def test_the_old_process_of_a_static_member_is_fenced() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    coordinator.heartbeat("a", -2, instance_id="i")
    coordinator.join("b", "t", instance_id="i")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.error(coordinator.heartbeat, "a", 2, instance_id="i") == fenced
    assert coordinator.error(coordinator.leave, "a", instance_id="i") == fenced
    unknown = coordinator.error(coordinator.heartbeat, "a", 2, instance_id="other")
    assert unknown == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rejoining_static_member_may_change_its_subscription() -> None:
    coordinator = ConsumerCoordinator(topics={"t": 1, "u": 1})
    coordinator.join("a", "t", instance_id="i")
    coordinator.heartbeat("a", -2, instance_id="i")
    coordinator.join("b", "u", instance_id="i")
    assert coordinator.assigned("b") == {("u", 0)}
