"""`ottla reassign cancel`."""

from __future__ import annotations

import json

import pytest

from ottla.cli.main import main
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from tests.unit.cli.reassign.fake_cluster import FakeCluster


@pytest.fixture(autouse=True)
def moving(fake: FakeCluster) -> None:
    fake.polls = 100
    fake.move(("clicks", 0), [3])
    fake.move(("views", 0), [3, 2])
    fake.configs["broker", "1"] = {"leader.replication.throttled.rate": "5000"}


def test_all_that_moves(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reassign", "cancel"]) == 0
    assert capsys.readouterr().out == "cancelled 2 partitions\n"
    assert (fake.moving, any(fake.configs.values())) == ({}, False)


def test_of_one_topic_and_the_throttle_of_the_others_stays(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reassign", "cancel", "--topic", "clicks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "cancelled": [{"topic": "clicks", "partition": 0}]
    }
    assert fake.asked == [{TopicPartition("clicks", 0): None}]
    assert fake.configs["broker", "1"]


def test_nothing_moves(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reassign", "cancel", "--topic", "clicks:1"]) == 0
    assert capsys.readouterr().out == "none of these partitions is being moved\n"
    fake.moving.clear()
    assert main(["reassign", "cancel"]) == 0
    assert capsys.readouterr().out == "no partition is being moved\n"


def test_what_is_done_meanwhile_is_no_failure(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.refusal = KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "over")
    assert main(["reassign", "cancel"]) == 0
    fake.refusal = KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere")
    assert main(["reassign", "cancel"]) == 1
    assert "clicks:0: elsewhere (NOT_CONTROLLER)" in capsys.readouterr().err


def test_on_a_terminal_it_asks(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert main(["reassign", "cancel"]) == 1
    assert "nothing was cancelled" in capsys.readouterr().err
    assert len(fake.moving) == 2
