"""The codes are what Apache Kafka 4.3 answered to the same requests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from ottla.controller.topic_names import TopicNames
from ottla.controller.topic_planning import (
    NewTopic,
    PlannedTopic,
    TopicDefaults,
    TopicPlanner,
    plan_growth,
    unknown_topic,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from tests.unit.controller.brokers import check_topic_config

ONE_BROKER: dict[int, str | None] = {1: None}
THREE_BROKERS: dict[int, str | None] = {1: None, 2: None, 3: None}


def plan(topic: NewTopic, racks: dict[int, str | None] = ONE_BROKER) -> PlannedTopic:
    planner = TopicPlanner(
        rng=random.Random(0),
        defaults=lambda: TopicDefaults(partition_count=2, replication_factor=1),
        check_config=check_topic_config,
    )
    return planner.creation(topic, TopicNames({"old", "x.y"}), racks)


def test_minus_one_takes_the_defaults_of_the_broker() -> None:
    assert plan(NewTopic("t")).replicas == [(1,), (1,)]


def test_replicas_are_placed_on_brokers_that_are_alive_or_by_hand() -> None:
    placed = plan(NewTopic("t", 6, 2), THREE_BROKERS).replicas
    assert Counter(broker for replicas in placed for broker in replicas) == {1: 4, 2: 4, 3: 4}
    by_hand = NewTopic("t", assignments=[(1, (2, 3)), (0, (3, 1))])
    assert plan(by_hand, THREE_BROKERS).replicas == [(3, 1), (2, 3)]


def test_a_topic_has_a_new_id_unless_its_logs_have_one() -> None:
    assert len(plan(NewTopic("t")).id) == 16
    given = TopicId(bytes(range(16)))
    assert plan(NewTopic("t", id=given)).id == given


def test_the_longest_name_is_fine() -> None:
    assert plan(NewTopic("a" * 249)).name == "a" * 249


BAD_TOPICS = {
    "there already": (NewTopic("old"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "there already, with a bad setting": (
        NewTopic("old", config={"nope": "1"}),
        ErrorCode.TOPIC_ALREADY_EXISTS,
    ),
    "there already, with a dot": (NewTopic("x.y"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "no name": (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dot": (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dots": (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "long": (NewTopic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "slash": (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "space and a bad setting": (
        NewTopic("a b", config={"nope": "1"}),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ),
    "not ASCII": (NewTopic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "line end": (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "collision": (NewTopic("x_y"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "Kafka's metadata": (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
    "no partitions": (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
    "fewer than no partitions": (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
    "no partitions, too many replicas": (NewTopic("t", 0, 2), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "fewer than no replicas": (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "nothing of both": (NewTopic("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "too many replicas": (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "too many partitions": (NewTopic("t", 10_001, 1), ErrorCode.POLICY_VIOLATION),
    "too many of both": (NewTopic("t", 10**9, 2), ErrorCode.POLICY_VIOLATION),
    "by hand with a count": (
        NewTopic("t", 1, -1, assignments=[(0, (1,))]),
        ErrorCode.INVALID_REQUEST,
    ),
    "by hand with a factor": (
        NewTopic("t", -1, 1, assignments=[(0, (1,))]),
        ErrorCode.INVALID_REQUEST,
    ),
    "by hand with a gap": (
        NewTopic("t", assignments=[(0, (1,)), (2, (1,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand below zero": (
        NewTopic("t", assignments=[(-1, (1,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand twice": (
        NewTopic("t", assignments=[(0, (1,)), (0, (1,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand, twice on a broker": (
        NewTopic("t", assignments=[(0, (1, 1))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand on nobody": (
        NewTopic("t", assignments=[(0, (9,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand without brokers": (
        NewTopic("t", assignments=[(0, ())]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "unknown setting": (NewTopic("t", config={"nope": "1"}), ErrorCode.INVALID_CONFIG),
    "bad setting": (NewTopic("t", config={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
    "setting without value": (
        NewTopic("t", config={"retention.ms": None}),
        ErrorCode.INVALID_CONFIG,
    ),
    "bad setting and no partitions": (
        NewTopic("t", 0, 1, config={"nope": "1"}),
        ErrorCode.INVALID_CONFIG,
    ),
}


@pytest.mark.parametrize("case", BAD_TOPICS)
def test_a_bad_topic_is_refused_with_kafkas_code(case: str) -> None:
    topic, code = BAD_TOPICS[case]
    with pytest.raises(KafkaError) as caught:
        plan(topic)
    assert caught.value.code is code
    assert caught.value.message


def test_replicas_of_different_number_are_refused() -> None:
    with pytest.raises(KafkaError, match="not consistent with previous partitions") as caught:
        plan(NewTopic("t", assignments=[(0, (1,)), (1, (1, 2))]), THREE_BROKERS)
    assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_added_partitions_go_on_where_the_others_stopped() -> None:
    present = [(1, 2), (2, 3)]
    assert len(plan_growth("t", present, 4, None, THREE_BROKERS)) == 2
    assert plan_growth("t", present, 3, [(3, 2)], THREE_BROKERS) == [(3, 2)]


BAD_GROWTH: dict[str, tuple[tuple[int, Sequence[Sequence[int]] | None], ErrorCode]] = {
    "same": ((2, None), ErrorCode.INVALID_PARTITIONS),
    "fewer": ((1, None), ErrorCode.INVALID_PARTITIONS),
    "below zero": ((-1, None), ErrorCode.INVALID_PARTITIONS),
    "too few placed": ((4, [(1,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "too many placed": ((3, [(1,), (1,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "none placed": ((3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "on no broker": ((3, [()]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "twice on a broker": ((3, [(1, 1)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "on nobody": ((3, [(9,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    # Kafka answers UNKNOWN_SERVER_ERROR here; that tells nobody what to do.
    "too many": ((10**9, None), ErrorCode.POLICY_VIOLATION),
}


@pytest.mark.parametrize("case", BAD_GROWTH)
def test_bad_growth_is_refused_with_kafkas_code(case: str) -> None:
    (count, assignments), code = BAD_GROWTH[case]
    with pytest.raises(KafkaError) as caught:
        plan_growth("t", [(1,), (1,)], count, assignments, ONE_BROKER)
    assert caught.value.code is code
    assert caught.value.message


def test_what_is_not_there_by_name_and_by_id() -> None:
    assert unknown_topic("nope").code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "'nope' does not exist" in (unknown_topic("nope").message or "")
    assert unknown_topic(TopicId(bytes(16))).code is ErrorCode.UNKNOWN_TOPIC_ID
