from __future__ import annotations

from ottla.coordinators.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.consumer_groups import ConsumerCoordinator, two_members


def test_tombstones_come_in_the_order_in_which_kafka_can_replay_them() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    written = len(coordinator.log)
    coordinator.leave("b")
    assert [type(record.key) for record in coordinator.records[written:]] == [
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
    ]


def test_no_timer_of_who_left_is_left() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.join("b", "t")
    coordinator.heartbeat("a", 2)
    coordinator.leave("a")
    coordinator.leave("b")
    assert coordinator.timers.names == set()


def test_members_that_go_at_once_cause_one_epoch() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    coordinator.classic_leave("a", "b")
    assert coordinator.group.is_empty
    assert coordinator.group.group_epoch == 4


def test_a_session_that_ended_while_nothing_could_be_written_ends_again() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    coordinator.timers.advance(45_000)
    coordinator.failure = None
    assert "a" in coordinator.group.members
    coordinator.timers.advance(500)
    assert coordinator.group.is_empty


def test_the_group_no_longer_depends_on_what_only_they_read() -> None:
    coordinator = ConsumerCoordinator(topics={"t": 1, "u": 1})
    coordinator.join("a", "t")
    before = coordinator.group.metadata_hash
    coordinator.join("b", "u")
    assert coordinator.group.metadata_hash != before
    coordinator.leave("b")
    assert coordinator.group.metadata_hash == before
