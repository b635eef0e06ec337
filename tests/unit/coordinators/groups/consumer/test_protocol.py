from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinators.groups.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from tests.support.consumer_groups import (
    GROUP,
    REBALANCE_MS,
    ConsumerCoordinator,
    of_t,
    two_members,
)

# -- joining --------------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once() -> None:
    coordinator = ConsumerCoordinator()
    response = coordinator.join("a", "t")
    assert (response.member_id, response.member_epoch) == ("a", 2)
    assert response.heartbeat_interval_ms == 5000
    assert response.assignment is not None
    assert coordinator.named(response.assignment.topic_partitions) == of_t(0, 1, 2, 3)
    assert coordinator.group.state_name == "Stable"


def test_joining_writes_what_kafka_would_write() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", client="me")
    values = [record.value for record in coordinator.records]
    assert [type(value) for value in values] == [
        ConsumerGroupMemberMetadataValue,
        ConsumerGroupMetadataValue,
        ConsumerGroupTargetAssignmentMemberValue,
        ConsumerGroupTargetAssignmentMetadataValue,
        ConsumerGroupCurrentMemberAssignmentValue,
    ]
    member, _, _, target, current = values
    assert isinstance(member, ConsumerGroupMemberMetadataValue)
    assert (member.client_id, member.client_host) == ("me", "/10.0.0.1")
    assert member.subscribed_topic_names == ["t"]
    assert isinstance(target, ConsumerGroupTargetAssignmentMetadataValue)
    assert target.assignment_timestamp == coordinator.timers.now_ms()
    assert isinstance(current, ConsumerGroupCurrentMemberAssignmentValue)
    assert (current.member_epoch, current.previous_member_epoch) == (2, 0)
    assert current.assigned_partitions[0].assignment_epochs == [2, 2, 2, 2]


def test_a_client_of_version_0_is_given_an_id() -> None:
    coordinator = ConsumerCoordinator()
    first = coordinator.join("", "t", version=0)
    second = coordinator.join("", "t", version=0)
    assert first.member_id
    assert second.member_id
    assert first.member_id != second.member_id
    assert set(coordinator.group.members) == {first.member_id, second.member_id}


def test_a_full_group_takes_nobody_else() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.max.size": "1"})
    coordinator.join("a", "t")
    assert coordinator.error(coordinator.join, "b", "t") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.error(coordinator.join, "a", "t") == ErrorCode.NONE


def test_only_a_joining_member_makes_a_group() -> None:
    coordinator = ConsumerCoordinator()
    assert coordinator.error(coordinator.heartbeat, "a", 2) == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.error(coordinator.leave, "a") == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_may_subscribe_to_what_does_not_exist_yet() -> None:
    coordinator = ConsumerCoordinator(topics={})
    joined = coordinator.join("a", "later")
    assert joined.member_epoch == 2
    assert joined.assignment is not None
    assert joined.assignment.topic_partitions == []
    coordinator.change_topics({"later": 2})
    response = coordinator.heartbeat("a", 2)
    assert response.member_epoch == 3
    assert coordinator.assigned("a") == {("later", 0), ("later", 1)}


def test_a_member_may_subscribe_to_nothing() -> None:
    coordinator = ConsumerCoordinator()
    joined = coordinator.join("a")
    assert joined.member_epoch == 1
    assert coordinator.group.state_name == "Stable"


# -- epochs ---------------------------------------------------------------------------------


def test_who_is_no_member_is_told_so() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    assert coordinator.error(coordinator.heartbeat, "b", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_newer_epoch_than_ours_is_fenced() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    assert coordinator.error(coordinator.heartbeat, "a", 3) == ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_taken_from_who_did_not_hear_the_answer() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    previous = coordinator.heartbeat("a", 2, owned=of_t(0))
    assert previous.member_epoch == 3
    fenced = ErrorCode.FENCED_MEMBER_EPOCH
    assert coordinator.error(coordinator.heartbeat, "a", 2) == fenced
    assert coordinator.error(coordinator.heartbeat, "a", 2, owned=of_t(0, 2)) == fenced


def test_an_epoch_long_past_is_fenced() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    coordinator.change_topics({"t": 5})
    coordinator.heartbeat("a", 3)
    assert coordinator.error(coordinator.heartbeat, "a", 2, owned=set()) == (
        ErrorCode.FENCED_MEMBER_EPOCH
    )


def test_a_member_that_was_fenced_joins_again_under_its_id() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    response = coordinator.join("a", "t")
    assert response.member_epoch == 3
    assert response.assignment is not None
    assert coordinator.named(response.assignment.topic_partitions) == of_t(0, 1)


def test_a_heartbeat_that_changes_nothing_writes_and_tells_nothing() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    written = len(coordinator.log)
    response = coordinator.heartbeat("a", 3, owned=of_t(0, 1))
    assert (response.member_epoch, response.assignment) == (3, None)
    assert len(coordinator.log) == written


def test_a_full_heartbeat_is_told_the_assignment_again() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    written = len(coordinator.log)
    response = coordinator.heartbeat(
        "a",
        2,
        owned=of_t(0, 1),
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=["t"],
    )
    assert response.assignment is not None
    assert coordinator.named(response.assignment.topic_partitions) == of_t(0, 1)
    assert len(coordinator.log) == written


# -- commits and fetches --------------------------------------------------------------------


def commit(
    coordinator: ConsumerCoordinator, member_id: str, epoch: int, partition: int = 0, **fields: Any
) -> ErrorCode:
    def run() -> None:
        check = coordinator.protocol.check_commit(
            coordinator.group, member_id, epoch, None, fields.get("version", 10)
        )
        topic = coordinator.topics.by_name("t")
        assert topic is not None
        check("t", topic.id if fields.get("by_id") else NO_TOPIC_ID, partition)

    return coordinator.error(run)


def test_commits_are_taken_from_members_in_their_epoch() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    assert commit(coordinator, "a", 3) == ErrorCode.NONE
    assert commit(coordinator, "a", 4) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "c", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(coordinator, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(coordinator, "a", 3, version=8) == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("by_id", [True, False])
def test_an_epoch_before_may_commit_what_the_member_has_had_since_then(by_id: bool) -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    assert commit(coordinator, "a", 2, partition=0, by_id=by_id) == ErrorCode.NONE
    assert commit(coordinator, "b", 2, partition=2, by_id=by_id) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "a", 2, partition=2, by_id=by_id) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_empty_group_takes_commits_of_administrators() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.leave("a")
    assert commit(coordinator, "", -1) == ErrorCode.NONE
    assert commit(coordinator, "a", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_fetches_are_checked_if_they_say_who_asks() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)

    def fetch(member_id: str | None, epoch: int) -> ErrorCode:
        check = coordinator.protocol.check_fetch
        return coordinator.error(check, coordinator.group, member_id, epoch)

    assert fetch(None, -1) == ErrorCode.NONE
    assert fetch("a", 3) == ErrorCode.NONE
    assert fetch("a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("c", 4) == ErrorCode.UNKNOWN_MEMBER_ID


# -- the whole group ------------------------------------------------------------------------


def test_describe_tells_where_everybody_is() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", client="me", rack_id="r", instance_id="i")
    coordinator.join("b", "t")
    described = coordinator.describe()
    assert (described.group_id, described.group_state) == (GROUP, "Reconciling")
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    assert described.assignor_name == "uniform"
    member = described.members[0]
    assert (member.member_id, member.instance_id, member.rack_id) == ("a", "i", "r")
    assert (member.member_epoch, member.client_id, member.client_host) == (2, "me", "/10.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["t"], "")
    assert member.member_type == 1
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert member.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]
    assert member.target_assignment.topic_partitions[0].partitions == [0, 1]


def test_what_is_left_of_a_deleted_group_is_nothing() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.join("m", subscribed_topic_regex="t")
    coordinator.leave("a")
    coordinator.leave("m")
    coordinator.write(Result(None, coordinator.protocol.delete(coordinator.group)))
    assert coordinator.context.groups == {}
    coordinator.compact()
    assert coordinator.log == []
