from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.consumer_groups import ConsumerCoordinator, of_t, two_members

SESSION_MS = 45_000


def test_a_member_that_is_not_heard_of_is_put_out() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    coordinator.timers.advance(SESSION_MS - 1)
    coordinator.heartbeat("a", 3)
    coordinator.timers.advance(1)
    assert set(coordinator.group.members) == {"a"}
    coordinator.heartbeat("a", 3)
    assert coordinator.assigned("a") == of_t(0, 1, 2, 3)


def test_a_member_whose_leaving_was_not_written_is_put_out_later() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.error(coordinator.leave, "b") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.failure = None
    coordinator.heartbeat("a", 3)
    assert "b" in coordinator.group.members
    coordinator.timers.advance(SESSION_MS - 1)
    coordinator.heartbeat("a", 3)
    coordinator.timers.advance(1)
    assert set(coordinator.group.members) == {"a"}


def test_sessions_begin_anew_after_loading() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    coordinator.timers.advance(SESSION_MS - 1)
    coordinator.reload()
    coordinator.timers.advance(SESSION_MS - 1)
    assert len(coordinator.group.members) == 2
    coordinator.timers.advance(1)
    assert coordinator.group.is_empty


def test_the_time_to_give_up_begins_anew_after_loading() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", rebalance_timeout_ms=10_000)
    coordinator.join("b", "t")
    coordinator.heartbeat("a", 2)
    coordinator.reload()
    coordinator.timers.advance(9_999)
    assert "a" in coordinator.group.members
    coordinator.timers.advance(1)
    assert set(coordinator.group.members) == {"b"}


def test_a_group_may_have_a_time_out_of_its_own() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    coordinator.overrides = {"consumer.session.timeout.ms": "60000"}
    coordinator.heartbeat("a", 3)
    coordinator.timers.advance(SESSION_MS)
    assert set(coordinator.group.members) == {"a"}, "what b had before its next heartbeat counts"
    coordinator.timers.advance(60_000 - SESSION_MS - 1)
    assert set(coordinator.group.members) == {"a"}
    coordinator.timers.advance(1)
    assert coordinator.group.is_empty
