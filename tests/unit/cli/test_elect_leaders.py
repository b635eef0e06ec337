"""`ottla elect-leaders`."""

from __future__ import annotations

import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition

from ottla.cli import elect_leaders
from ottla.cli.client import Cluster
from ottla.cli.main import main


class FakeAdmin:
    def __init__(self) -> None:
        self.leaders = {("clicks", 0): 1, ("clicks", 1): 2, ("views", 0): -1}
        self.replicas = {("clicks", 0): [1, 2], ("clicks", 1): [1, 2], ("views", 0): [3, 2]}
        self.asked: list[tuple[ElectionType, list[tuple[str, int]]]] = []
        self.errors: dict[tuple[str, int], KafkaError] = {}

    def list_topics(self, name: str | None = None, **_: Any) -> Any:
        topics: dict[str, Any] = {}
        for (topic, number), leader in self.leaders.items():
            part = SimpleNamespace(leader=leader, replicas=self.replicas[topic, number])
            found = topics.setdefault(topic, SimpleNamespace(partitions={}, error=None))
            found.partitions[number] = part
        if name is not None and name not in topics:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            topics[name] = SimpleNamespace(partitions={}, error=error)
        return SimpleNamespace(topics=topics)

    def elect_leaders(
        self, kind: ElectionType, partitions: list[TopicPartition], **_: Any
    ) -> Future[Any]:
        keys = [(each.topic, each.partition) for each in partitions]
        self.asked.append((kind, keys))
        for key in keys:
            if key not in self.errors:
                of_one = self.replicas[key]
                self.leaders[key] = of_one[0 if kind is ElectionType.PREFERRED else 1]
        future: Future[Any] = Future()
        future.set_result(
            {each: self.errors.get((each.topic, each.partition)) for each in partitions}
        )
        return future


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    admin = FakeAdmin()
    monkeypatch.setattr(Cluster, "admin", lambda _: admin)
    monkeypatch.setattr(elect_leaders, "_METADATA_LAG_S", 0.0)
    return admin


def test_preferred_leaders(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elect-leaders", "--topic", "clicks"]) == 0
    assert capsys.readouterr().out == (
        "TOPIC   PARTITION  LEADER  NEW  RESULT\nclicks          1       2    1  elected\n"
    )
    assert admin.asked == [(ElectionType.PREFERRED, [("clicks", 1)])]
    assert main(["elect-leaders", "--topic", "clicks"]) == 0
    assert capsys.readouterr().out == "every partition is led by its preferred replica\n"
    assert len(admin.asked) == 1


def test_what_cannot_be_elected(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Broker 3 is not alive."
    admin.errors["views", 0] = KafkaError(KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, text)
    assert main(["elect-leaders", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "executed": True,
        "election": "preferred",
        "partitions": [
            {"topic": "clicks", "partition": 1, "old_leader": 2, "leader": 1, "error": None},
            {
                "topic": "views",
                "partition": 0,
                "old_leader": None,
                "leader": None,
                "error": "Broker 3 is not alive (PREFERRED_LEADER_NOT_AVAILABLE)",
            },
        ],
    }


def test_one_that_was_elected_meanwhile_is_no_failure(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.errors["clicks", 1] = KafkaError(KafkaError.ELECTION_NOT_NEEDED)
    assert main(["elect-leaders", "--preferred", "--topic", "clicks:1"]) == 0


def test_an_unclean_election_is_planned_first(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["elect-leaders", "--unclean"]) == 0
    shown = capsys.readouterr()
    assert shown.out == (
        "TOPIC  PARTITION  LEADER  NEW  RESULT\nviews          0    none    -  to be elected\n"
    )
    assert "--execute does it" in shown.err
    assert admin.asked == []
    assert main(["elect-leaders", "--unclean", "--execute"]) == 0
    assert capsys.readouterr().out == (
        "TOPIC  PARTITION  LEADER  NEW  RESULT\nviews          0    none    2  elected\n"
    )
    assert admin.asked == [(ElectionType.UNCLEAN, [("views", 0)])]
    assert main(["elect-leaders", "--unclean", "--execute"]) == 0
    assert capsys.readouterr().out == "every partition has a leader\n"


def test_what_is_not_there(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elect-leaders", "--topic", "click"]) == 1
    assert "did you mean 'clicks'?" in capsys.readouterr().err
    assert main(["elect-leaders", "--topic", "clicks:7"]) == 1
    assert "no 7 among them" in capsys.readouterr().err
