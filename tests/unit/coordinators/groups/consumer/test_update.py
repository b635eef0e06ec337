from __future__ import annotations

from ottla.coordinators.groups.records import (
    ConsumerGroupRegularExpressionKey,
)
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.consumer_groups import GROUP, ConsumerCoordinator, of_t, two_members

# -- reconciliation -------------------------------------------------------------------------


def test_a_partition_moves_only_when_its_owner_has_given_it_up() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    joined = coordinator.join("b", "t")
    assert joined.member_epoch == 3
    assert coordinator.assigned("b") == set()
    assert coordinator.group.state_name == "Reconciling"

    asked = coordinator.heartbeat("a", 2, owned=of_t(0, 1, 2, 3))
    assert asked.member_epoch == 2
    assert asked.assignment is not None
    assert coordinator.named(asked.assignment.topic_partitions) == of_t(0, 1)
    assert coordinator.heartbeat("b", 3).assignment is None

    # As long as it says that it has them, or says nothing, they are its.
    assert coordinator.heartbeat("a", 2).member_epoch == 2
    assert coordinator.heartbeat("a", 2, owned=of_t(0, 1, 3)).member_epoch == 2
    assert coordinator.heartbeat("b", 3).assignment is None

    assert coordinator.heartbeat("a", 2, owned=of_t(0, 1)).member_epoch == 3
    given = coordinator.heartbeat("b", 3)
    assert given.assignment is not None
    assert coordinator.named(given.assignment.topic_partitions) == of_t(2, 3)
    assert coordinator.group.state_name == "Stable"


def test_who_does_not_give_up_in_time_is_put_out() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", rebalance_timeout_ms=10_000)
    coordinator.join("b", "t")
    coordinator.heartbeat("a", 2)
    coordinator.timers.advance(9_999)
    assert "a" in coordinator.group.members
    coordinator.timers.advance(1)
    assert set(coordinator.group.members) == {"b"}
    assert coordinator.error(coordinator.heartbeat, "a", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.heartbeat("b", 3)
    assert coordinator.assigned("b") == of_t(0, 1, 2, 3)


def test_who_gave_up_in_time_is_not_put_out() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", rebalance_timeout_ms=10_000)
    coordinator.join("b", "t")
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned=of_t(0, 1))
    coordinator.timers.advance(10_000)
    assert "a" in coordinator.group.members


def test_partitions_of_a_member_that_leaves_go_to_the_others() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    left = coordinator.leave("b")
    assert (left.member_id, left.member_epoch) == ("b", -1)
    assert coordinator.group.state_name == "Assigning"
    assert coordinator.heartbeat("a", 3).member_epoch == 4
    assert coordinator.assigned("a") == of_t(0, 1, 2, 3)


def test_a_group_lives_on_without_members() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.leave("a")
    assert coordinator.group.state_name == "Empty"
    assert coordinator.group.is_empty
    assert coordinator.join("b", "t").member_epoch == 4


def test_what_is_no_longer_subscribed_to_is_taken_away() -> None:
    coordinator = ConsumerCoordinator(topics={"t": 1, "u": 1})
    coordinator.join("a", "t", "u")
    response = coordinator.heartbeat("a", 2, subscribed_topic_names=["u"])
    assert response.assignment is not None
    assert coordinator.named(response.assignment.topic_partitions) == {("u", 0)}
    assert response.member_epoch == 2
    assert coordinator.heartbeat("a", 2, owned={("u", 0)}).member_epoch == 3


def test_what_is_no_longer_subscribed_to_is_taken_away_even_before_the_next_assignment() -> None:
    coordinator = ConsumerCoordinator(
        topics={"t": 1, "u": 1}, settings={"group.consumer.assignment.interval.ms": "1000"}
    )
    coordinator.join("a", "t", "u")
    response = coordinator.heartbeat("a", 2, subscribed_topic_names=["u"])
    assert coordinator.group.assignment_epoch == 2
    assert response.assignment is not None
    assert coordinator.named(response.assignment.topic_partitions) == {("u", 0)}


def test_many_changes_at_once_make_one_assignment() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.assignment.interval.ms": "1000"})
    coordinator.join("a", "t")
    coordinator.timers.advance(999)
    coordinator.join("b", "t")
    coordinator.join("c", "t")
    assert coordinator.group.assignment_epoch == 2
    assert coordinator.group.state_name == "Assigning"
    coordinator.timers.advance(1)
    coordinator.heartbeat("b", 2)
    assert coordinator.group.assignment_epoch == coordinator.group.group_epoch == 4
    sizes = [sum(map(len, coordinator.group.target[member].values())) for member in ("a", "b", "c")]
    assert sorted(sizes) == [1, 1, 2]


def test_a_group_may_have_a_pause_of_its_own() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.overrides = {"consumer.assignment.interval.ms": "1000"}
    coordinator.join("a", "t")
    coordinator.join("b", "t")
    assert coordinator.group.assignment_epoch == 2
    coordinator.overrides = {}
    coordinator.heartbeat("b", 2)
    assert coordinator.group.assignment_epoch == coordinator.group.group_epoch == 3


# -- assignors ------------------------------------------------------------------------------


def test_the_assignor_that_most_members_ask_for_is_taken() -> None:
    coordinator = ConsumerCoordinator(topics={"t": 2, "u": 2})
    coordinator.join("a", "t", "u", server_assignor="range")
    coordinator.join("b", "t", "u")
    assert coordinator.describe().assignor_name == "range"
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned={("t", 0), ("u", 0)})
    coordinator.heartbeat("b", 3)
    assert coordinator.assigned("a") == {("t", 0), ("u", 0)}
    assert coordinator.assigned("b") == {("t", 1), ("u", 1)}


def test_the_default_assignor_is_the_first_of_the_settings() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.assignors": "range,uniform"})
    coordinator.join("a", "t")
    assert coordinator.describe().assignor_name == "range"


# -- topics ---------------------------------------------------------------------------------


def test_new_partitions_are_assigned_at_the_next_heartbeat() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.change_topics({"t": 6})
    response = coordinator.heartbeat("a", 2)
    assert response.member_epoch == 3
    assert coordinator.assigned("a") == of_t(0, 1, 2, 3, 4, 5)


def test_a_deleted_topic_is_taken_away() -> None:
    coordinator = ConsumerCoordinator(topics={"t": 1, "u": 1})
    coordinator.join("a", "t", "u")
    coordinator.change_topics({"t": 0})
    response = coordinator.heartbeat("a", 2)
    assert response.assignment is not None
    assert coordinator.named(response.assignment.topic_partitions) == {("u", 0)}
    assert coordinator.heartbeat("a", 2, owned={("u", 0)}).member_epoch == 3
    described = coordinator.describe().members[0]
    assert [topic.topic_name for topic in described.assignment.topic_partitions] == ["u"]


def test_other_topics_change_nothing() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    written = len(coordinator.log)
    coordinator.change_topics({"other": 1})
    assert coordinator.heartbeat("a", 3).member_epoch == 3
    assert len(coordinator.log) == written


def test_topics_that_changed_while_nobody_looked_are_seen_after_loading() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.topics.put("t", 5)
    coordinator.reload()
    coordinator.heartbeat("a", 2)
    assert coordinator.assigned("a") == of_t(0, 1, 2, 3, 4)


def test_a_change_of_topics_is_not_forgotten_if_it_could_not_be_written() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.change_topics({"t": 5})
    coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.error(coordinator.heartbeat, "a", 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.failure = None
    coordinator.heartbeat("a", 2)
    assert coordinator.assigned("a") == of_t(0, 1, 2, 3, 4)


# -- regular expressions --------------------------------------------------------------------


def regexes(coordinator: ConsumerCoordinator) -> dict[str, set[str]]:
    return {regex: set(found.topics) for regex, found in coordinator.group.regexes.items()}


def test_an_expression_is_resolved_by_the_broker() -> None:
    coordinator = ConsumerCoordinator(topics={"a1": 1, "a2": 1, "b": 1})
    joined = coordinator.join("m", subscribed_topic_regex="a.*")
    assert joined.assignment is not None
    assert coordinator.named(joined.assignment.topic_partitions) == {("a1", 0), ("a2", 0)}
    assert regexes(coordinator) == {"a.*": {"a1", "a2"}}
    assert coordinator.group.is_subscribed_to("a1")
    assert not coordinator.group.is_subscribed_to("b")


def test_names_and_an_expression_add_up() -> None:
    coordinator = ConsumerCoordinator(topics={"a": 1, "b": 1, "c": 1})
    coordinator.join("m", subscribed_topic_names=["b"], subscribed_topic_regex="a")
    assert coordinator.assigned("m") == {("a", 0), ("b", 0)}


def test_an_expression_that_is_none_is_refused() -> None:
    coordinator = ConsumerCoordinator()
    assert coordinator.error(coordinator.join, "m", subscribed_topic_regex="(") == (
        ErrorCode.INVALID_REGULAR_EXPRESSION
    )
    assert not coordinator.log


def test_new_topics_that_match_are_read() -> None:
    coordinator = ConsumerCoordinator(topics={"a1": 1})
    coordinator.join("m", subscribed_topic_regex="a.*")
    coordinator.heartbeat("m", 2)
    coordinator.change_topics({"a2": 1, "b": 1})
    assert coordinator.heartbeat("m", 2).member_epoch == 3
    assert coordinator.assigned("m") == {("a1", 0), ("a2", 0)}
    coordinator.change_topics({"a1": 0})
    coordinator.heartbeat("m", 3)
    coordinator.heartbeat("m", 3, owned={("a2", 0)})
    assert regexes(coordinator) == {"a.*": {"a2"}}
    assert coordinator.assigned("m") == {("a2", 0)}


def test_expressions_are_resolved_anew_after_loading_and_from_time_to_time() -> None:
    coordinator = ConsumerCoordinator(topics={"a1": 1})
    coordinator.join("m", subscribed_topic_regex="a.*")
    coordinator.topics.put("a2", 1)
    coordinator.reload()
    coordinator.heartbeat("m", 2)
    assert regexes(coordinator) == {"a.*": {"a1", "a2"}}
    coordinator.topics.put("a3", 1)
    for _ in range(15):
        coordinator.timers.advance(40_001)
        coordinator.heartbeat("m", 3)
    assert regexes(coordinator) == {"a.*": {"a1", "a2", "a3"}}


def test_new_topics_are_not_forgotten_if_they_could_not_be_written() -> None:
    coordinator = ConsumerCoordinator(topics={"a1": 1})
    coordinator.join("m", subscribed_topic_regex="a.*")
    coordinator.heartbeat("m", 2)
    coordinator.change_topics({"a2": 1})
    coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.error(coordinator.heartbeat, "m", 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.failure = None
    coordinator.heartbeat("m", 2)
    assert coordinator.assigned("m") == {("a1", 0), ("a2", 0)}


def test_an_expression_that_was_never_resolved_is_when_its_member_is_heard_of() -> None:
    """Kafka resolves them in the background, and may be stopped before."""
    coordinator = ConsumerCoordinator(topics={"a": 1})
    coordinator.join("m", subscribed_topic_regex="a")
    key = ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="a")
    coordinator.write(Result(None, [CoordinatorRecord(key, None)]))
    assert regexes(coordinator) == {}
    coordinator.heartbeat("m", 2)
    assert regexes(coordinator) == {"a": {"a"}}


def test_an_expression_goes_with_the_last_who_subscribes_to_it() -> None:
    coordinator = ConsumerCoordinator(topics={"a": 2, "b": 2})
    coordinator.join("m", subscribed_topic_regex="a")
    coordinator.join("n", subscribed_topic_regex="a")
    coordinator.heartbeat("n", 3, subscribed_topic_regex="b")
    assert set(regexes(coordinator)) == {"a", "b"}
    coordinator.leave("m")
    assert set(regexes(coordinator)) == {"b"}
    coordinator.heartbeat(
        "n",
        coordinator.group.members["n"].member_epoch,
        subscribed_topic_regex="",
        subscribed_topic_names=["a"],
    )
    assert regexes(coordinator) == {}
    last = [
        record
        for record in coordinator.records
        if isinstance(record.key, ConsumerGroupRegularExpressionKey)
    ][-1]
    assert last.value is None
