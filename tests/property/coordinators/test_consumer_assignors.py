"""What holds of every assignment, whatever the group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.groups.consumer.assignors import (
    ASSIGNORS,
    Assignments,
    MemberSpec,
    assign_uniform,
)
from ottla.kernel.ids import TopicId
from ottla.kernel.slices import at_once
from tests.support.counts import count

TOPICS = [TopicId(bytes([number]) * 16) for number in range(4)]

Group = tuple[dict[str, MemberSpec], dict[TopicId, int]]


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> Group:
    """What the members had may be anything: the group and the topics have changed since then."""
    counts = {topic: draw(st.integers(1, 12)) for topic in TOPICS}
    subscriptions = st.frozensets(st.sampled_from(TOPICS))
    common = draw(subscriptions)
    assigned = st.dictionaries(
        st.sampled_from(TOPICS), st.frozensets(st.integers(0, 14), min_size=1)
    )
    members = {
        f"m{number}": MemberSpec(
            draw(st.none() | st.just(f"i{number}")),
            common if alike else draw(subscriptions),
            draw(assigned),
        )
        for number in range(draw(st.integers(1, 7)))
    }
    return members, counts


def sizes(assignments: Assignments) -> dict[str, int]:
    return {member: sum(map(len, mine.values())) for member, mine in assignments.items()}


def owners(assignments: Mapping[str, Mapping[TopicId, frozenset[int]]]) -> dict[object, str]:
    return {
        (topic, partition): member
        for member, mine in assignments.items()
        for topic, partitions in mine.items()
        for partition in partitions
    }


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
@settings(max_examples=count(2000))
def test_everything_subscribed_goes_to_exactly_one_of_its_readers(name: str, group: Group) -> None:
    members, counts = group
    assignments = at_once(ASSIGNORS[name](members, counts))
    assert assignments.keys() == members.keys()
    given_out = Counter(
        (topic, partition)
        for mine in assignments.values()
        for topic, partitions in mine.items()
        for partition in partitions
    )
    read = {topic for spec in members.values() for topic in spec.topic_ids}
    wanted = {(topic, number) for topic in read for number in range(counts[topic])}
    assert given_out == Counter(wanted)
    for member, mine in assignments.items():
        assert mine.keys() <= members[member].topic_ids
        assert all(mine.values())


@given(group=groups(alike=True))
@settings(max_examples=count(2000))
def test_uniform_is_level_where_all_read_the_same(group: Group) -> None:
    loads = sizes(at_once(assign_uniform(*group))).values()
    assert max(loads) - min(loads) <= 1


@given(group=groups())
@settings(max_examples=count(2000))
def test_no_move_could_make_uniform_more_level(group: Group) -> None:
    members, counts = group
    assignments = at_once(assign_uniform(members, counts))
    loads = sizes(assignments)
    for one, other in combinations(members, 2):
        for giver, taker in ((one, other), (other, one)):
            if assignments[giver].keys() & members[taker].topic_ids:
                assert loads[giver] - loads[taker] <= 1


def followed_by(
    group: Group, change: Callable[[dict[str, MemberSpec], dict[TopicId, int]], None]
) -> tuple[Assignments, Assignments]:
    members, counts = group
    before = at_once(assign_uniform(members, counts))
    members = {member: spec._replace(assigned=before[member]) for member, spec in members.items()}
    change(members, counts)
    return before, at_once(assign_uniform(members, counts))


def moved(before: Assignments, after: Assignments) -> int:
    """From one who is still there to another."""
    now = owners(after)
    return sum(
        member in after and now.get(partition) != member
        for partition, member in owners(before).items()
    )


@given(group=groups())
@settings(max_examples=count(1000))
def test_uniform_moves_nothing_if_nothing_changed(group: Group) -> None:
    before, after = followed_by(group, lambda members, counts: None)
    assert after == before


@given(group=groups(alike=True))
@settings(max_examples=count(1000))
def test_uniform_moves_only_to_a_new_member(group: Group) -> None:
    members, _ = group
    common = members["m0"].topic_ids

    def join(members: dict[str, MemberSpec], counts: dict[TopicId, int]) -> None:
        members["new"] = MemberSpec(None, common, {})

    before, after = followed_by(group, join)
    assert moved(before, after) == sizes(after)["new"]


@given(group=groups(alike=True))
@settings(max_examples=count(1000))
def test_uniform_moves_only_what_a_member_left(group: Group) -> None:
    def leave(members: dict[str, MemberSpec], counts: dict[TopicId, int]) -> None:
        del members["m0"]

    before, after = followed_by(group, leave)
    assert moved(before, after) == 0


@given(group=groups(alike=True))
@settings(max_examples=count(1000))
def test_uniform_moves_as_little_as_new_partitions_allow(group: Group) -> None:
    def grow(members: dict[str, MemberSpec], counts: dict[TopicId, int]) -> None:
        counts[TOPICS[0]] += 3

    before, after = followed_by(group, grow)
    assert moved(before, after) == 0
