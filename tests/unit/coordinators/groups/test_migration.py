from __future__ import annotations

import pytest

from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.result import Deferred
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupResponse
from tests.support.consumer_groups import (
    CLASSIC_SESSION_MS,
    GROUP,
    ConsumerCoordinator,
    Partitions,
    embedded,
    of_t,
)


def classic_group(coordinator: ConsumerCoordinator, count: int = 1) -> list[str]:
    """Stable; the partitions of `t` go round. The ids of the members."""
    waiting: list[Deferred[JoinGroupResponse]] = []
    for _ in range(count):
        response = coordinator.classic_join_waiting("", "t", version=3)
        assert isinstance(response, Deferred)
        waiting.append(response)
    coordinator.timers.advance(0)
    member_ids = [response.value.member_id for response in waiting]
    assignments: dict[str, Partitions] = {member_id: set() for member_id in member_ids}
    for partition in range(4):
        assignments[member_ids[partition % count]].add(("t", partition))
    joined = waiting[0].value
    coordinator.classic_sync(joined.leader, joined.generation_id, assignments)
    assert coordinator.classic_group.state_name == "Stable"
    return member_ids


# -- upgrade --------------------------------------------------------------------------------


def test_a_member_of_the_newer_protocol_turns_the_group_over() -> None:
    coordinator = ConsumerCoordinator()
    first, second = classic_group(coordinator, 2)
    generation_id = coordinator.classic_group.generation_id
    joined = coordinator.join("new", "t")
    assert joined.member_epoch == generation_id + 1
    assert set(coordinator.group.members) == {first, second, "new"}
    assert coordinator.assigned(first) == of_t(0, 2)
    assert coordinator.assigned(second) == of_t(1, 3)
    assert coordinator.assigned("new") == set()

    # The old ones go on with their generation until they hear that they should join.
    for member_id in (first, second):
        heard = coordinator.classic_heartbeat(member_id, generation_id)
        assert heard == ErrorCode.REBALANCE_IN_PROGRESS
        owned = coordinator.assigned(member_id)
        while coordinator.group.members[member_id].member_epoch == generation_id:
            coordinator.classic_join(member_id, "t", owned=owned)
            owned = coordinator.assigned(member_id)
    coordinator.heartbeat("new", joined.member_epoch)
    assert coordinator.group.state_name == "Stable"
    everyone = [coordinator.assigned(member_id) for member_id in (first, second, "new")]
    assert set().union(*everyone) == of_t(0, 1, 2, 3)
    assert sorted(map(len, everyone)) == [1, 1, 2]


def test_members_that_wait_for_a_rebalance_are_told_to_join_again() -> None:
    coordinator = ConsumerCoordinator(settings={"group.initial.rebalance.delay.ms": "3000"})
    waiting = coordinator.classic_join_waiting("", "t", version=3)
    assert isinstance(waiting, Deferred)
    assert not waiting.is_resolved
    coordinator.join("new", "t")
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(coordinator.group.members) == {waiting.value.member_id, "new"}


def test_sessions_of_classic_members_go_on() -> None:
    coordinator = ConsumerCoordinator()
    classic_group(coordinator)
    coordinator.join("new", "t")
    coordinator.timers.advance(CLASSIC_SESSION_MS)
    assert set(coordinator.group.members) == {"new"}


def test_an_empty_classic_group_is_simply_taken_over() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.migration.policy": "disabled"})
    classic_group(coordinator)
    coordinator.timers.advance(CLASSIC_SESSION_MS)
    assert coordinator.classic_group.is_empty
    assert coordinator.join("new", "t").member_epoch == 2
    assert set(coordinator.group.members) == {"new"}


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_may_forbid_the_upgrade(policy: str) -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.migration.policy": policy})
    classic_group(coordinator)
    assert coordinator.error(coordinator.join, "new", "t") == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(coordinator.context.groups[GROUP], ClassicGroup)


def test_groups_of_something_else_than_consumers_stay_classic() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.classic_join_waiting("", version=3, protocol_type="connect")
    assert coordinator.error(coordinator.join, "new", "t") == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_whose_members_cannot_be_understood_stay_classic() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.classic_join_waiting("", version=3, metadata=b"nonsense")
    assert coordinator.error(coordinator.join, "new", "t") == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_that_are_too_large_stay_classic() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.max.size": "1"})
    classic_group(coordinator, 2)
    assert coordinator.error(coordinator.join, "new", "t") == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_upgrade_that_could_not_be_written_changes_nothing() -> None:
    coordinator = ConsumerCoordinator()
    (old,) = classic_group(coordinator)
    generation_id = coordinator.classic_group.generation_id
    coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.error(coordinator.join, "new", "t") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.failure = None
    assert coordinator.classic_heartbeat(old, generation_id) == ErrorCode.NONE
    coordinator.timers.advance(5_000)
    assert coordinator.classic_heartbeat(old, generation_id) == ErrorCode.NONE


def test_an_upgraded_group_is_loaded_as_it_was() -> None:
    coordinator = ConsumerCoordinator()
    classic_group(coordinator)
    coordinator.join("new", "t")
    before = coordinator.describe()
    coordinator.reload()
    assert coordinator.describe() == before


# -- downgrade ------------------------------------------------------------------------------


def mixed_group(coordinator: ConsumerCoordinator) -> None:
    """`old` has 2 and 3, `new` has 0 and 1."""
    coordinator.join("new", "t")
    coordinator.classic_join("old", "t")
    coordinator.heartbeat("new", 2)
    coordinator.heartbeat("new", 2, owned=of_t(0, 1))
    coordinator.classic_join("old", "t")
    coordinator.classic_sync("old", 3)


def test_when_the_last_of_the_newer_protocol_leaves_the_group_is_classic_again() -> None:
    coordinator = ConsumerCoordinator()
    mixed_group(coordinator)
    coordinator.leave("new")
    group = coordinator.classic_group
    assert set(group.members) == {"old"}
    assert group.generation_id == 3
    assert embedded(group.members["old"].assignment) == of_t(2, 3)
    coordinator.timers.advance(0)
    assert coordinator.classic_heartbeat("old", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = coordinator.classic_join("old", "t")
    assert (joined.generation_id, joined.leader) == (4, "old")
    synced = coordinator.classic_sync("old", 4, {"old": of_t(0, 1, 2, 3)})
    assert embedded(synced.assignment) == of_t(0, 1, 2, 3)


def test_the_same_when_it_is_lost() -> None:
    coordinator = ConsumerCoordinator()
    mixed_group(coordinator)
    for _ in range(9):
        coordinator.timers.advance(5_000)
        if isinstance(coordinator.context.groups[GROUP], ConsumerGroup):
            coordinator.classic_heartbeat("old", 3)
    assert set(coordinator.classic_group.members) == {"old"}


def test_members_of_a_downgraded_group_have_sessions() -> None:
    coordinator = ConsumerCoordinator()
    mixed_group(coordinator)
    coordinator.leave("new")
    coordinator.timers.advance(CLASSIC_SESSION_MS)
    assert coordinator.classic_group.is_empty


def test_a_static_classic_member_that_replaces_the_last_of_the_newer_protocol() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("new", "t", instance_id="i")
    coordinator.classic_join("old", "t")
    joined = coordinator.classic_join("", "t", group_instance_id="i")
    assert joined.error_code == ErrorCode.NONE
    group = coordinator.classic_group
    assert set(group.members) == {"old", joined.member_id}
    assert joined.generation_id == group.generation_id
    coordinator.timers.advance(0)
    assert coordinator.classic_heartbeat("old", group.generation_id) == (
        ErrorCode.REBALANCE_IN_PROGRESS
    )
    coordinator.reload()
    assert set(coordinator.classic_group.members) == {"old", joined.member_id}


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_the_policy_may_forbid_the_downgrade(policy: str) -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.migration.policy": policy})
    mixed_group(coordinator)
    coordinator.leave("new")
    assert set(coordinator.group.members) == {"old"}
    assert coordinator.classic_heartbeat("old", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.classic_join("old", "t", owned=of_t(2, 3))
    assert embedded(coordinator.classic_sync("old", 4).assignment) == of_t(0, 1, 2, 3)


def test_a_group_that_is_too_large_for_the_classic_protocol_stays() -> None:
    coordinator = ConsumerCoordinator(settings={"group.max.size": "1"})
    mixed_group(coordinator)
    coordinator.classic_join("old2", "t")
    coordinator.leave("new")
    assert set(coordinator.group.members) == {"old", "old2"}


def test_an_empty_group_is_not_downgraded_but_gives_way_to_a_classic_member() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("new", "t")
    coordinator.leave("new")
    assert coordinator.group.is_empty
    member_ids = classic_group(coordinator)
    assert set(coordinator.classic_group.members) == set(member_ids)
    coordinator.reload()
    assert set(coordinator.classic_group.members) == set(member_ids)


def test_a_downgraded_group_is_loaded_as_a_classic_one() -> None:
    coordinator = ConsumerCoordinator()
    mixed_group(coordinator)
    coordinator.leave("new")
    coordinator.reload()
    assert set(coordinator.classic_group.members) == {"old"}
    coordinator.compact()
    coordinator.reload()
    assert set(coordinator.classic_group.members) == {"old"}


def test_a_downgrade_that_could_not_be_written_is_tried_again() -> None:
    coordinator = ConsumerCoordinator()
    mixed_group(coordinator)
    coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.error(coordinator.leave, "new") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.timers.advance(0)
    coordinator.failure = None
    assert set(coordinator.group.members) == {"new", "old"}
    coordinator.leave("new")
    assert set(coordinator.classic_group.members) == {"old"}
