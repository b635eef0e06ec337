from __future__ import annotations

from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.leave_group import MemberIdentity
from tests.support.consumer_groups import (
    CLASSIC_SESSION_MS,
    REBALANCE_MS,
    ConsumerCoordinator,
    embedded,
    of_t,
)


@pytest.fixture
def mixed() -> ConsumerCoordinator:
    """`new` speaks the consumer protocol and has 0 and 1 of `t`, `old` the classic one and has 2
    and 3; both in epoch 3."""
    coordinator = ConsumerCoordinator()
    coordinator.join("new", "t")
    coordinator.classic_join("old", "t")
    coordinator.heartbeat("new", 2)
    coordinator.heartbeat("new", 2, owned=of_t(0, 1))
    coordinator.classic_join("old", "t")
    synced = coordinator.classic_sync("old", 3)
    assert embedded(synced.assignment) == of_t(2, 3)
    assert coordinator.group.state_name == "Stable"
    return coordinator


def test_a_classic_member_joins_without_waiting_and_without_a_leader() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("new", "t")
    joined = coordinator.classic_join("old", "t", protocols=["range", "cooperative-sticky"])
    assert joined.error_code == ErrorCode.NONE
    assert (joined.member_id, joined.generation_id) == ("old", 3)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert (joined.leader, joined.members) == ("", [])
    # Nothing is free yet.
    assert embedded(coordinator.classic_sync("old", 3, protocol_name="range").assignment) == set()
    assert coordinator.describe().members[1].member_type == 0


def test_it_hears_by_its_heartbeat_when_its_partitions_are_free() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("new", "t")
    coordinator.classic_join("old", "t")
    coordinator.classic_sync("old", 3)
    assert coordinator.classic_heartbeat("old", 3) == ErrorCode.NONE
    coordinator.heartbeat("new", 2)
    coordinator.heartbeat("new", 2, owned=of_t(0, 1))
    assert coordinator.classic_heartbeat("old", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.classic_join("old", "t").generation_id == 3
    assert embedded(coordinator.classic_sync("old", 3).assignment) == of_t(2, 3)
    assert coordinator.classic_heartbeat("old", 3) == ErrorCode.NONE


def test_it_gives_up_partitions_in_two_rounds(mixed: ConsumerCoordinator) -> None:
    mixed.join("third", "t")
    assert mixed.classic_heartbeat("old", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert mixed.classic_join("old", "t", owned=of_t(2, 3)).generation_id == 3
    kept = embedded(mixed.classic_sync("old", 3).assignment)
    assert len(kept) == 1
    assert mixed.classic_heartbeat("old", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert mixed.classic_join("old", "t", owned=kept).generation_id == 4
    assert embedded(mixed.classic_sync("old", 4).assignment) == kept
    mixed.heartbeat("third", 4)
    assert mixed.assigned("third") == of_t(2, 3) - kept


def test_an_eager_member_gives_up_all_before_it_joins(mixed: ConsumerCoordinator) -> None:
    mixed.join("third", "t")
    assert mixed.classic_join("old", "t", owned=set()).generation_id == 4
    assert len(embedded(mixed.classic_sync("old", 4).assignment)) == 1


def test_a_dynamic_member_needs_an_id() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("new", "t")
    refused = coordinator.classic_join("", "t", version=4)
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id
    assert set(coordinator.group.members) == {"new"}
    taken = coordinator.classic_join("", "t", version=3)
    assert taken.error_code == ErrorCode.NONE
    assert taken.member_id in coordinator.group.members


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ["sticky"]}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\x00"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_cannot_come_in(
    mixed: ConsumerCoordinator, fields: dict[str, Any], code: ErrorCode
) -> None:
    written = len(mixed.log)
    assert mixed.error(mixed.classic_join, "other", "t", **fields) == code
    assert len(mixed.log) == written


def test_a_full_group_takes_nobody_else() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.max.size": "1"})
    coordinator.join("new", "t")
    assert coordinator.error(coordinator.classic_join, "old", "t") == (
        ErrorCode.GROUP_MAX_SIZE_REACHED
    )


def test_requests_of_the_other_protocol_are_refused(mixed: ConsumerCoordinator) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.error(mixed.classic_heartbeat, "new", 3) == unknown
    assert mixed.error(mixed.classic_sync, "new", 3) == unknown
    assert mixed.error(mixed.classic_heartbeat, "nobody", 3) == unknown


def test_the_generation_is_checked(mixed: ConsumerCoordinator) -> None:
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert mixed.error(mixed.classic_heartbeat, "old", 2) == illegal
    assert mixed.error(mixed.classic_sync, "old", 4) == illegal
    with pytest.raises(KafkaError) as raised:
        mixed.protocol.check_commit(mixed.group, "old", 4, None, 8)
    assert raised.value.code is illegal
    mixed.protocol.check_commit(mixed.group, "old", 3, None, 8)


def test_the_protocol_is_checked_when_it_syncs(mixed: ConsumerCoordinator) -> None:
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert mixed.error(mixed.classic_sync, "old", 3, protocol_name="range") == inconsistent
    assert mixed.error(mixed.classic_sync, "old", 3, protocol_type="connect") == inconsistent
    assert mixed.error(mixed.classic_sync, "old", 3, protocol_name=None) == ErrorCode.NONE


def test_a_sync_from_before_a_change_is_sent_back_to_join(mixed: ConsumerCoordinator) -> None:
    mixed.join("third", "t")
    assert mixed.error(mixed.classic_sync, "old", 3) == ErrorCode.REBALANCE_IN_PROGRESS


# -- time -----------------------------------------------------------------------------------


def pass_time(coordinator: ConsumerCoordinator, by_ms: int) -> None:
    """Both are heard of, but do nothing else."""
    for _ in range(by_ms // 5_000):
        coordinator.timers.advance(5_000)
        members = coordinator.group.members
        coordinator.heartbeat("new", members["new"].member_epoch)
        if "old" in members:
            coordinator.classic_heartbeat("old", members["old"].member_epoch)


def test_its_session_is_its_own(mixed: ConsumerCoordinator) -> None:
    mixed.timers.advance(CLASSIC_SESSION_MS - 1)
    mixed.classic_heartbeat("old", 3)
    mixed.timers.advance(CLASSIC_SESSION_MS - 1)
    assert "old" in mixed.group.members
    mixed.timers.advance(1)
    assert set(mixed.group.members) == {"new"}


def test_its_session_is_its_own_after_loading(mixed: ConsumerCoordinator) -> None:
    mixed.reload()
    mixed.timers.advance(CLASSIC_SESSION_MS)
    assert set(mixed.group.members) == {"new"}


def test_who_is_to_join_and_does_not_is_put_out(mixed: ConsumerCoordinator) -> None:
    mixed.heartbeat("new", 3, subscribed_topic_names=["t", "u"])
    assert mixed.classic_heartbeat("old", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    pass_time(mixed, REBALANCE_MS - 5_000)
    assert "old" in mixed.group.members
    pass_time(mixed, 5_000)
    assert "old" not in mixed.group.members


def test_who_joined_and_does_not_sync_is_put_out(mixed: ConsumerCoordinator) -> None:
    mixed.classic_join("old", "t")
    pass_time(mixed, REBALANCE_MS - 5_000)
    assert "old" in mixed.group.members
    pass_time(mixed, 5_000)
    assert "old" not in mixed.group.members


# -- static members and leaving -------------------------------------------------------------


def test_a_static_classic_member_takes_the_place_of_one_of_the_other_protocol() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("stays", "t")
    coordinator.join("new", "t", instance_id="i")
    replaced = coordinator.classic_join("", "t", group_instance_id="i")
    assert replaced.error_code == ErrorCode.NONE
    assert set(coordinator.group.members) == {"stays", replaced.member_id}
    assert coordinator.group.static_member_ids == {"i": replaced.member_id}
    fenced = coordinator.error(coordinator.heartbeat, "new", 3, instance_id="i")
    assert fenced == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_takes_the_place_of_a_classic_one() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("stays", "t")
    old = coordinator.classic_join("", "t", group_instance_id="i").member_id
    coordinator.join("new", "t", instance_id="i")
    assert set(coordinator.group.members) == {"stays", "new"}
    assert coordinator.error(coordinator.classic_heartbeat, old, 2, group_instance_id="i") == (
        ErrorCode.FENCED_INSTANCE_ID
    )


def test_a_static_member_joins_again_under_its_id() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("stays", "t")
    old = coordinator.classic_join("", "t", group_instance_id="i")
    again = coordinator.classic_join(old.member_id, "t", group_instance_id="i")
    assert again.generation_id == old.generation_id
    assert coordinator.error(coordinator.classic_join, "x", "t", group_instance_id="i") == (
        ErrorCode.FENCED_INSTANCE_ID
    )


def test_leaving(mixed: ConsumerCoordinator) -> None:
    mixed.classic_join("second", "t")
    response = mixed.classic_leave("old", "nobody")
    assert [(each.member_id, each.error_code) for each in response.members] == [
        ("old", ErrorCode.NONE),
        ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert set(mixed.group.members) == {"new", "second"}
    assert mixed.classic_leave("second", version=2).error_code == ErrorCode.NONE
    assert mixed.classic_leave("second", version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert set(mixed.group.members) == {"new"}


def test_an_administrator_removes_static_members_by_instance(mixed: ConsumerCoordinator) -> None:
    mixed.classic_join("", "t", group_instance_id="i")
    mixed.join("n2", "t", instance_id="j")
    response = mixed.classic_leave(
        MemberIdentity(group_instance_id="i"),
        MemberIdentity(group_instance_id="j"),
        MemberIdentity(group_instance_id="k"),
    )
    assert [each.error_code for each in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert set(mixed.group.members) == {"new", "old"}
