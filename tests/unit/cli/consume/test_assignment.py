"""Which partitions are read, and what a group is told."""

from __future__ import annotations

import queue
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError

from ottla.cli.consume import assignment as assignment_module
from ottla.cli.consume.assignment import GroupAssignment, ManualAssignment, partitions_text
from ottla.cli.consume.chosen_topics import ChosenTopics
from ottla.cli.consume.positions import Start
from ottla.cli.errors import Failure
from tests.unit.cli.consume.fakes import FakeConsumer

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def consumer() -> FakeConsumer:
    return FakeConsumer(topics={"t": 3})


def manual(consumer: Any, clock: Clock, *topics: str, is_endless: bool = True) -> ManualAssignment:
    chosen = ChosenTopics(topics)
    return ManualAssignment(consumer, chosen, Start(), is_endless=is_endless, clock=clock)


def joined(consumer: Any, clock: Clock) -> GroupAssignment:
    assignment = GroupAssignment(consumer, "g", ChosenTopics(["t"]), is_endless=True, clock=clock)
    assignment.begin()
    return assignment


# --- by hand -----------------------------------------------------------------------------------


def test_by_hand_all_partitions_are_assigned_at_once(consumer: FakeConsumer, clock: Clock) -> None:
    assignment = manual(consumer, clock, "t")
    assert assignment.unfinished is None
    assignment.begin()

    assert consumer.assigned == [("t", number, OFFSET_END) for number in range(3)]
    assert assignment.unfinished == {T0, T1, T2}


def test_topics_and_partitions_that_are_new_are_read_from_their_beginning(
    consumer: FakeConsumer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    assignment = manual(consumer, clock, "^t")
    assignment.begin()
    consumer.assigned.clear()
    consumer.topics = {"t": 4, "t-new": 1, "other": 1}

    assignment.between_polls()
    assert consumer.assigned == []  # it is not asked at every turn
    clock.now_s += 10
    assignment.between_polls()
    assignment.between_polls()

    assert consumer.assigned == [("t", 3, OFFSET_BEGINNING), ("t-new", 0, OFFSET_BEGINNING)]
    assert capsys.readouterr().err == "ottla: new: t:3 t-new:0\n"


def test_a_reading_with_an_end_takes_nothing_new(consumer: FakeConsumer, clock: Clock) -> None:
    assignment = manual(consumer, clock, "t", is_endless=False)
    assignment.begin()
    consumer.topics = {"t": 4}
    clock.now_s += 10
    assignment.between_polls()

    assert len(consumer.assigned) == 3


def test_a_topic_that_was_deleted_does_not_end_the_looking(
    consumer: FakeConsumer, clock: Clock
) -> None:
    assignment = manual(consumer, clock, "t")
    assignment.begin()
    consumer.topics = {"u": 1}
    clock.now_s += 10
    assignment.between_polls()

    assert len(consumer.assigned) == 3


def test_nothing_matches(
    consumer: FakeConsumer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Failure, match=r"no topic matches \^x; see"):
        manual(consumer, clock, "^x", is_endless=False).begin()
    member: Any = consumer
    with pytest.raises(Failure, match=r"no topic matches \^x; see"):
        GroupAssignment(member, "g", ChosenTopics(["^x"]), is_endless=False).begin()
    manual(consumer, clock, "^x").begin()
    assert capsys.readouterr().err == "ottla: no topic matches ^x yet; waiting for one\n"


# --- in a group --------------------------------------------------------------------------------


def test_a_member_says_what_it_gets_and_gives(
    consumer: FakeConsumer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    assignment = joined(consumer, clock)
    assert (consumer.subscribed, assignment.unfinished) == (["t"], None)
    consumer.rebalance("assign", T0, T1, T2)
    assert assignment.unfinished == {T0, T1, T2}
    consumer.rebalance("revoke", T0, T1)
    assert assignment.unfinished == {T2}
    consumer.rebalance("lost", T2)
    assert assignment.unfinished is None
    consumer.rebalance("assign")
    assert assignment.unfinished == set()

    assert capsys.readouterr().err.splitlines() == [
        "ottla: group g: assigned t:0-2",
        "ottla: group g: revoked t:0-1",
        "ottla: group g: lost t:2, whose last records other members may read again",
        "ottla: group g: assigned nothing; other members have all partitions",
    ]


def test_a_rebalance_that_takes_all_partitions_is_no_end(
    consumer: FakeConsumer, clock: Clock
) -> None:
    """Eager assignors revoke everything before they assign it again."""
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0, T1)
    consumer.rebalance("revoke", T0, T1)
    assert assignment.unfinished is None
    consumer.rebalance("assign", T0)
    assert assignment.unfinished == {T0}


def test_what_was_read_to_its_end_stays_so_when_other_partitions_go(
    consumer: FakeConsumer, clock: Clock
) -> None:
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0, T1)
    assert assignment.unfinished is not None
    assignment.unfinished.discard(T0)
    consumer.rebalance("revoke", T1)
    assert assignment.unfinished == set()


def test_what_was_written_is_committed_every_second_and_at_the_end(
    consumer: FakeConsumer, clock: Clock
) -> None:
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0, T1)
    assignment.wrote({T0: 5})
    assignment.between_polls()
    assert consumer.committed == []

    clock.now_s += 2
    assignment.between_polls()
    assignment.wrote({T0: 5})  # an end that was seen again is nothing new
    clock.now_s += 2
    assignment.between_polls()
    assert consumer.committed == [(False, {T0: 5})]

    assignment.wrote({T1: 9})
    assignment.finish()
    assert consumer.committed[1:] == [(True, {T0: 5, T1: 9})]


def test_partitions_that_go_to_another_member_are_committed_before(
    consumer: FakeConsumer, clock: Clock
) -> None:
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0, T1)
    assignment.wrote({T0: 5, T1: 6})
    consumer.rebalance("revoke", T0)
    assert consumer.committed == [(True, {T0: 5})]

    # Records of it that were polled before are written after: its new owner commits for it.
    assignment.wrote({T0: 7})
    assignment.finish()
    assert consumer.committed[1:] == [(True, {T1: 6})]


def test_nothing_is_committed_for_partitions_that_were_lost(
    consumer: FakeConsumer, clock: Clock
) -> None:
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0)
    assignment.wrote({T0: 5})
    consumer.rebalance("lost", T0)
    assignment.finish()

    assert consumer.committed == []


def test_the_end_says_nothing_of_partitions(
    consumer: FakeConsumer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0)
    assignment.wrote({T0: 5})
    assignment.finish()
    capsys.readouterr()
    consumer.rebalance("revoke", T0)  # by the client, as it leaves the group

    assert capsys.readouterr().err == ""
    assert len(consumer.committed) == 1


def test_a_commit_that_fails_is_said(
    consumer: FakeConsumer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0, T1)
    assignment.wrote({T0: 5, T1: 5})
    consumer.commit_error = KafkaError.REBALANCE_IN_PROGRESS
    complaint = "could not commit t:%d: .*REBALANCE_IN_PROGRESS.*; the last records will be read"

    consumer.rebalance("revoke", T0)
    assert "could not commit t:0: " in capsys.readouterr().err
    with pytest.raises(Failure, match=complaint % 1):
        assignment.finish()


def test_a_last_commit_that_nobody_answers_is_said(
    consumer: FakeConsumer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: queue.Queue[str] = queue.Queue()
    texts: list[str] = []
    assignment = joined(consumer, clock)
    consumer.rebalance("assign", T0)
    assignment.wrote({T0: 5})
    monkeypatch.setattr(assignment_module, "warn", said.put)
    monkeypatch.setattr(assignment_module, "_COMMIT_PATIENCE_S", 0.01)
    # The broker answers when the user has been told.
    monkeypatch.setattr(consumer, "commit", lambda **_: texts.append(said.get(timeout=30)))
    assignment.finish()

    assert texts == [
        "group g: no answer to the commit of t:0 yet; without one the last records will be read "
        "again"
    ]


def test_partitions_in_short() -> None:
    assert partitions_text([]) == ""
    assert partitions_text([("b", 0), ("a", 5), ("a", 0), ("a", 1), ("a", 2)]) == "a:0-2,5 b:0"
