from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from ottla.coordinators.groups.consumer.assignors import (
    ASSIGNORS,
    Assignments,
    MemberSpec,
    assign_range,
    assign_uniform,
)
from ottla.kernel.ids import TopicId
from ottla.kernel.slices import Steps, at_once

A, B, C = (TopicId(bytes([number]) * 16) for number in (1, 2, 3))


def spec(
    *topics: TopicId,
    assigned: Mapping[TopicId, Iterable[int]] | None = None,
    instance_id: str | None = None,
) -> MemberSpec:
    had = {topic: frozenset(partitions) for topic, partitions in (assigned or {}).items()}
    return MemberSpec(instance_id, frozenset(topics), had)


def plain(steps: Steps[Assignments]) -> dict[str, object]:
    return {
        member: {topic: sorted(parts) for topic, parts in assignment.items()}
        for member, assignment in at_once(steps).items()
    }


def test_uniform_gives_each_its_share() -> None:
    members = {"m1": spec(A, B), "m2": spec(A, B)}
    assert plain(assign_uniform(members, {A: 3, B: 2})) == {
        "m1": {A: [0, 1, 2]},
        "m2": {B: [0, 1]},
    }


def test_uniform_moves_only_what_a_new_member_needs() -> None:
    members = {
        "m1": spec(A, assigned={A: [0, 1, 2]}),
        "m2": spec(A, assigned={A: [3, 4, 5]}),
        "m3": spec(A),
    }
    assert plain(assign_uniform(members, {A: 6})) == {
        "m1": {A: [0, 1]},
        "m2": {A: [3, 4]},
        "m3": {A: [2, 5]},
    }


def test_uniform_spreads_what_a_member_left() -> None:
    members = {"m1": spec(A, assigned={A: [0, 1]}), "m2": spec(A, assigned={A: [3, 4]})}
    assert plain(assign_uniform(members, {A: 6})) == {"m1": {A: [0, 1, 2]}, "m2": {A: [3, 4, 5]}}


def test_uniform_leaves_the_odd_one_where_it_is() -> None:
    members = {"m1": spec(A, assigned={A: [0, 1]}), "m2": spec(A, assigned={A: [2, 3, 4]})}
    assert plain(assign_uniform(members, {A: 5})) == {"m1": {A: [0, 1]}, "m2": {A: [2, 3, 4]}}


def test_uniform_takes_back_what_is_no_longer_subscribed() -> None:
    members = {"m1": spec(A, assigned={B: [0, 1], A: [0]})}
    assert plain(assign_uniform(members, {A: 2})) == {"m1": {A: [0, 1]}}


def test_uniform_with_more_members_than_partitions() -> None:
    members = {"m1": spec(A), "m2": spec(A), "m3": spec(A)}
    assert plain(assign_uniform(members, {A: 2})) == {"m1": {A: [0]}, "m2": {A: [1]}, "m3": {}}


def test_uniform_with_different_subscriptions_gives_only_what_is_asked_for() -> None:
    members = {"m1": spec(A), "m2": spec(A, B), "m3": spec(B, C)}
    # C has one reader; then B, then A go to whoever has least.
    assert plain(assign_uniform(members, {A: 2, B: 2, C: 2})) == {
        "m1": {A: [0, 1]},
        "m2": {B: [0, 1]},
        "m3": {C: [0, 1]},
    }


def test_uniform_with_different_subscriptions_levels_what_there_was() -> None:
    members = {
        "m1": spec(A, assigned={A: [0, 1, 2, 3]}),
        "m2": spec(A, B),
    }
    assert plain(assign_uniform(members, {A: 4, B: 1})) == {
        "m1": {A: [0, 1, 2]},
        "m2": {A: [3], B: [0]},
    }


def test_uniform_gives_a_partition_that_two_had_to_one() -> None:
    members = {"m1": spec(A, assigned={A: [0]}), "m2": spec(A, assigned={A: [0]})}
    assert plain(assign_uniform(members, {A: 2})) == {"m1": {A: [0]}, "m2": {A: [1]}}


def test_range_gives_runs_and_the_same_numbers_of_each_topic() -> None:
    members = {"m2": spec(A, B), "m1": spec(A, B)}
    assert plain(assign_range(members, {A: 3, B: 3})) == {
        "m1": {A: [0, 1], B: [0, 1]},
        "m2": {A: [2], B: [2]},
    }


def test_range_orders_static_members_first_and_by_instance() -> None:
    members = {
        "a": spec(A),
        "b": spec(A, instance_id="two"),
        "c": spec(A, instance_id="one"),
    }
    assert plain(assign_range(members, {A: 3})) == {"c": {A: [0]}, "b": {A: [1]}, "a": {A: [2]}}


def test_range_counts_for_each_topic_its_own_readers() -> None:
    members = {"m1": spec(A), "m2": spec(A, B), "m3": spec(B)}
    assert plain(assign_range(members, {A: 4, B: 3})) == {
        "m1": {A: [0, 1]},
        "m2": {A: [2, 3], B: [0, 1]},
        "m3": {B: [2]},
    }


def test_range_with_more_members_than_partitions() -> None:
    members = {"m1": spec(A), "m2": spec(A)}
    assert plain(assign_range(members, {A: 1})) == {"m1": {A: [0]}, "m2": {}}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_who_subscribes_to_nothing_gets_nothing(name: str) -> None:
    assert at_once(ASSIGNORS[name]({}, {})) == {}
    assert at_once(ASSIGNORS[name]({"m1": spec()}, {})) == {"m1": {}}
