from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import AdminClient

from ottla.cli.errors import Failure
from ottla.cli.groups.read import committed_offsets, described_groups, listed_groups, state_text
from tests.unit.cli.groups.fake_admin import FakeAdmin, done, kafka_exception, member


def admin(**options: Any) -> AdminClient:
    return cast("AdminClient", FakeAdmin(**options))


def test_states_are_spelled_as_kafka_spells_them() -> None:
    def text(state: ConsumerGroupState) -> str:
        return state_text(state, ConsumerGroupType.CLASSIC)

    assert text(ConsumerGroupState.PREPARING_REBALANCING) == "PreparingRebalance"
    assert text(ConsumerGroupState.COMPLETING_REBALANCING) == "CompletingRebalance"
    assert text(ConsumerGroupState.UNKNOWN) == "Unknown"


def test_states_of_the_newer_protocol_that_librdkafka_does_not_know() -> None:
    state = state_text(ConsumerGroupState.UNKNOWN, ConsumerGroupType.CONSUMER)
    assert state == "Rebalancing"


def test_groups_are_listed_by_name() -> None:
    groups = listed_groups(admin(members={"b": [member("m")]}, committed={"a": {}}))

    assert groups == [
        {"group": "a", "state": "Empty", "type": "classic"},
        {"group": "b", "state": "Stable", "type": "classic"},
    ]


def test_a_list_that_is_not_whole_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = kafka_exception(KafkaError.NOT_COORDINATOR, "Broker: Not coordinator")
    answer = done(SimpleNamespace(valid=[], errors=[lost, lost]))
    monkeypatch.setattr(FakeAdmin, "list_consumer_groups", lambda *_, **__: answer)

    with pytest.raises(Failure, match=r"could not list all groups: Not coordinator \(NOT_COORD"):
        listed_groups(admin())


def test_members_offsets_and_lag() -> None:
    (group,) = described_groups(
        admin(
            members={"g": [member("m2", ("clicks", 2)), member("m1", ("clicks", 1), ("a", 0))]},
            committed={"g": {("clicks", 0): 3, ("clicks", 1): 12, ("gone", 0): 1}},
            latest={("clicks", 0): 10, ("clicks", 1): 10, ("clicks", 2): 10, ("a", 0): 0},
        ),
        ["g", "g"],
    )

    assert group["coordinator"] == {"id": 1, "host": "localhost", "port": 9092}
    assert [one["member_id"] for one in group["members"]] == ["m1", "m2"]
    assert group["members"][0]["partitions"] == [
        {"topic": "a", "partition": 0},
        {"topic": "clicks", "partition": 1},
    ]
    keys = ("topic", "partition", "committed_offset", "latest_offset", "lag", "member_id")
    assert [tuple(part[key] for key in keys) for part in group["partitions"]] == [
        ("a", 0, None, 0, None, "m1"),
        ("clicks", 0, 3, 10, 7, None),
        # Ahead of the log: nothing is left to read.
        ("clicks", 1, 12, 10, 0, "m1"),
        ("clicks", 2, None, 10, None, "m2"),
        ("gone", 0, 1, None, None, None),
    ]
    assert group["lag"] == 7


def test_lag_is_unknown_where_nothing_is_committed() -> None:
    (group,) = described_groups(admin(members={"g": [member("m")]}), ["g"])

    assert (group["lag"], group["partitions"], group["assignor"]) == (None, [], "range")


def test_a_group_that_is_not_there() -> None:
    one = admin(committed={"g": {}})

    with pytest.raises(Failure, match="there is no group 'h'"):
        described_groups(one, ["g", "h"])
    with pytest.raises(Failure, match=r"no group 'gg'; did you mean 'g'\?"):
        described_groups(one, ["gg"])
    assert [group["group"] for group in described_groups(one, ["g", "h"], must_exist=False)] == [
        "g"
    ]
    assert described_groups(one, []) == []


def test_partitions_without_an_offset_are_left_out() -> None:
    one = admin(committed={"g": {("clicks", 0): 3, ("clicks", 1): -1001}})

    assert committed_offsets(one, ["g", "h"]) == {"g": {("clicks", 0): 3}, "h": {}}
