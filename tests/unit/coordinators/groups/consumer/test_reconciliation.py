"""Single steps; how they play together is in test_consumer.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ottla.coordinators.groups.consumer.member import ConsumerMember, MemberState
from ottla.coordinators.groups.consumer.reconciliation import Reconciliation
from ottla.kernel.ids import TopicId
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions

T, U = TopicId(b"t" * 16), TopicId(b"u" * 16)


def member(assigned: Mapping[TopicId, Mapping[int, int]], **fields: Any) -> ConsumerMember:
    return ConsumerMember(
        **{
            "member_id": "m",
            "member_epoch": 1,
            "previous_member_epoch": 0,
            "assigned": assigned,
            "pending_revocation": {},
            **fields,
        }
    )


def step(
    before: ConsumerMember,
    target: Mapping[TopicId, Collection[int]],
    *,
    owned: Mapping[TopicId, Collection[int]] | None = None,
    taken: Mapping[tuple[TopicId, int], str] | None = None,
    **fields: Any,
) -> ConsumerMember:
    listed = None
    if owned is not None:
        listed = [
            TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in owned.items()
        ]
    owners = dict(taken or {})
    return Reconciliation(
        **{
            "target_epoch": 2,
            "target": {topic_id: frozenset(parts) for topic_id, parts in target.items()},
            "owned": listed,
            "owner_of": lambda topic_id, partition: owners.get((topic_id, partition)),
            "subscribed_topic_ids": {T, U},
            "subscription_changed": False,
            **fields,
        }
    ).next(before)


def test_what_stays_keeps_its_epoch_and_what_comes_has_the_new_one() -> None:
    after = step(member({T: {0: 1}}), {T: [0, 1]})
    assert after.assigned == {T: {0: 1, 1: 2}}
    assert (after.member_epoch, after.previous_member_epoch) == (2, 1)
    assert after.state is MemberState.STABLE


def test_what_was_given_up_before_it_was_asked_for_need_not_be_asked_for() -> None:
    after = step(member({T: {0: 1, 1: 1}}), {T: [0]}, owned={T: [0]})
    assert (after.state, after.member_epoch) == (MemberState.STABLE, 2)
    assert after.pending_revocation == {}


def test_a_member_keeps_its_epoch_while_it_gives_up() -> None:
    after = step(member({T: {0: 1, 1: 1}}), {T: [0], U: [0]})
    assert (after.state, after.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, 1)
    assert after.assigned == {T: {0: 1}}
    assert after.pending_revocation == {T: {1: 1}}


def test_who_gives_up_goes_to_the_newest_target_afterwards() -> None:
    before = member(
        {T: {0: 1}},
        state=MemberState.UNREVOKED_PARTITIONS,
        pending_revocation={T: {1: 1}},
    )
    assert step(before, {T: [0]}, owned={T: [1]}) == before
    after = step(before, {T: [0, 2]}, owned={T: [0]}, target_epoch=7)
    assert (after.state, after.member_epoch) == (MemberState.STABLE, 7)
    assert after.assigned == {T: {0: 1, 2: 7}}


def test_what_it_gave_up_itself_is_free_for_it() -> None:
    before = member({}, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation={T: {1: 1}})
    after = step(before, {T: [1]}, owned={}, taken={(T, 1): "m"})
    assert after.assigned == {T: {1: 2}}
    assert after.state is MemberState.STABLE


def test_it_takes_what_is_free_and_waits_for_the_rest() -> None:
    before = member({})
    waiting = step(before, {T: [0, 1]}, taken={(T, 1): "other"})
    assert waiting.state is MemberState.UNRELEASED_PARTITIONS
    assert waiting.assigned == {T: {0: 2}}
    assert waiting.member_epoch == 2
    still = step(waiting, {T: [0, 1]}, taken={(T, 0): "m", (T, 1): "other"})
    assert still == replace(waiting, previous_member_epoch=2)
    assert step(still, {T: [0, 1]}, taken={(T, 0): "m", (T, 1): "other"}) == still
    done = step(still, {T: [0, 1]}, taken={(T, 0): "m"})
    assert done == replace(still, state=MemberState.STABLE, assigned={T: {0: 2, 1: 2}})


def test_it_does_not_get_what_it_no_longer_subscribes_to() -> None:
    after = step(member({}), {T: [0], U: [0]}, subscribed_topic_ids={U})
    assert after.assigned == {U: {0: 2}}
    assert after.state is MemberState.STABLE


def test_a_changed_subscription_takes_away_at_once() -> None:
    before = member({T: {0: 1}, U: {0: 1}}, member_epoch=2)
    changed: dict[str, Any] = {"subscription_changed": True, "subscribed_topic_ids": {U}}
    asked = step(before, {T: [0], U: [0]}, **changed)
    assert asked.state is MemberState.UNREVOKED_PARTITIONS
    assert (asked.assigned, asked.pending_revocation) == ({U: {0: 1}}, {T: {0: 1}})
    given_up = step(before, {T: [0], U: [0]}, owned={U: [0]}, **changed)
    assert given_up == replace(before, assigned={U: {0: 1}})
    assert step(before, {T: [0], U: [0]}, subscription_changed=True) == before
