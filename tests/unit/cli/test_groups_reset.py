from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import AdminClient

from ottla.cli.errors import Failure
from ottla.cli.groups_plan import Move
from ottla.cli.groups_reset import commit, existing, make_plan, refuse_active
from tests.unit.cli.groups_fake import FakeAdmin, member

LATEST = {("clicks", 0): 10, ("clicks", 1): 20}


def as_admin(fake: FakeAdmin) -> AdminClient:
    return cast("AdminClient", fake)


@pytest.mark.parametrize(
    ("state", "type", "words"),
    [
        (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC, r"\(Stable, members: 1\)"),
        (
            ConsumerGroupState.PREPARING_REBALANCING,
            ConsumerGroupType.CLASSIC,
            r"\(PreparingRebalance",
        ),
        (ConsumerGroupState.UNKNOWN, ConsumerGroupType.CONSUMER, r"\(Rebalancing"),
    ],
)
def test_a_group_with_members_is_refused(
    state: ConsumerGroupState, type: ConsumerGroupType, words: str
) -> None:
    fake = FakeAdmin(members={"g": [member("m")]}, state=state, type=type)

    with pytest.raises(Failure, match=f"'g' is active {words}.*stop its consumers"):
        refuse_active(as_admin(fake), "g")


def test_a_group_without_members_is_not_nor_one_that_is_not_there() -> None:
    refuse_active(as_admin(FakeAdmin(committed={"g": {}})), "g")
    refuse_active(as_admin(FakeAdmin()), "g")


def test_what_is_selected_must_exist() -> None:
    admin = as_admin(FakeAdmin(latest={**LATEST, ("views", 0): 1}))

    assert existing(admin, {"views": None, "clicks": [1]}) == [("clicks", 1), ("views", 0)]
    with pytest.raises(Failure, match="there is no topic 'other'"):
        existing(admin, {"other": None})
    with pytest.raises(Failure, match="'clicks' has 2 partitions, and no 2, 5 among them"):
        existing(admin, {"clicks": [0, 2, 5]})


@pytest.mark.parametrize(
    ("target", "value", "new"),
    [
        ("to_earliest", True, [2, 0]),
        ("to_latest", True, [10, 20]),
        ("to_offset", 7, [7, 7]),
        ("to_offset", 15, [10, 15]),
        ("shift_by", -4, [2, 1]),
        ("from_file", {("clicks", 0): 3, ("clicks", 1): 2}, [3, 2]),
        # Behind the last record of the other partition, where the next one will be.
        ("to_time", 1_700_000_000_000, [3, 20]),
    ],
)
def test_targets(target: str, value: Any, new: list[int]) -> None:
    fake = FakeAdmin(latest=LATEST)
    fake.earliest[("clicks", 0)] = 2
    fake.by_time[("clicks", 0)] = 3
    committed = {("clicks", 0): 4, ("clicks", 1): 5}

    plan = make_plan(as_admin(fake), list(LATEST), committed, target, value)

    assert [move.new_offset for move in plan] == new
    assert [move.committed_offset for move in plan] == [4, 5]


def test_a_partition_without_leader_cannot_be_planned() -> None:
    fake = FakeAdmin(latest={("clicks", 0): 10})

    with pytest.raises(Failure, match="clicks:1 has no leader"):
        make_plan(as_admin(fake), list(LATEST), {}, "to_latest", True)


def test_a_plan_is_committed_whole() -> None:
    fake = FakeAdmin()
    plan = [Move("clicks", 0, 4, 7, 0, 10, ""), Move("clicks", 1, None, 9, 0, 20, "")]

    commit(as_admin(fake), "g", plan)
    assert fake.altered == [("g", {("clicks", 0): 7, ("clicks", 1): 9})]

    fake.alter_error = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    with pytest.raises(Failure, match=r"could not reset clicks:0: .*; clicks:1: "):
        commit(as_admin(fake), "g", plan)
