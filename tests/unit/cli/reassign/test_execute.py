"""`ottla reassign execute`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from tests.unit.cli.reassign.fake_cluster import FakeCluster


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    entries = [
        {"topic": "clicks", "partition": 0, "replicas": [3]},
        {"topic": "clicks", "partition": 1, "replicas": [1]},
        {"topic": "views", "partition": 0, "replicas": [3, 2]},
    ]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return str(path)


def test_it_moves_what_changes_and_waits(
    fake: FakeCluster, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.polls = 3
    assert main(["reassign", "execute", plan]) == 0
    assert fake.asked == [{TopicPartition("clicks", 0): (3,), TopicPartition("views", 0): (3, 2)}]
    out = capsys.readouterr().out
    assert "2 partitions change; 2 replicas are copied" in out
    assert out.endswith("moved 2 partitions\n")
    assert fake.replicas["views", 0] == [3, 2]


def test_the_throttle_is_removed_at_the_end(fake: FakeCluster, plan: str) -> None:
    assert main(["reassign", "execute", plan, "--throttle", "10MB"]) == 0
    assert ("SET", "3", "follower.replication.throttled.rate", "10000000") in fake.altered
    assert not any(fake.configs.values())


def test_without_waiting_the_throttle_stays(
    fake: FakeCluster, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reassign", "execute", plan, "--throttle", "10MB", "--no-wait", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["done"], found["partitions"][0]) == (
        False,
        {"topic": "clicks", "partition": 0, "replicas": [1], "target": [3]},
    )
    assert fake.configs["broker", "1"]
    assert set(fake.moving) == {("clicks", 0), ("views", 0)}


def test_the_way_back_is_saved(fake: FakeCluster, plan: str, tmp_path: Path) -> None:
    saved = tmp_path / "back.json"
    assert main(["reassign", "execute", plan, "--save-current", str(saved)]) == 0
    assert main(["reassign", "execute", str(saved)]) == 0
    assert (fake.replicas["clicks", 0], fake.replicas["views", 0]) == ([1], [1, 2])
    assert main(["reassign", "execute", plan, "--save-current", f"{tmp_path}/no/such"]) == 1


def test_nothing_to_move(fake: FakeCluster, plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    fake.replicas |= {("clicks", 0): [3], ("views", 0): [3, 2]}
    assert main(["reassign", "execute", plan]) == 0
    assert capsys.readouterr().out == "nothing to move: every partition is where it should be\n"
    assert fake.asked == []


def test_one_that_is_under_way_is_waited_for(fake: FakeCluster, plan: str) -> None:
    assert main(["reassign", "execute", plan, "--no-wait"]) == 0
    assert main(["reassign", "execute", plan]) == 0
    assert not fake.moving


def test_what_the_brokers_refuse(
    fake: FakeCluster, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.refusal = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "No.")
    assert main(["reassign", "execute", plan, "--throttle", "10MB"]) == 1
    assert "clicks:0: No (INVALID_REPLICA_ASSIGNMENT)" in capsys.readouterr().err
    assert not any(fake.configs.values()), "nothing moves, so nothing is throttled"


def test_what_somebody_cancelled(
    fake: FakeCluster,
    plan: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.cli.reassign.execute._METADATA_LAG_S", 0.0)
    fake.is_cancelled_meanwhile = True
    assert main(["reassign", "execute", plan]) == 1
    assert "clicks:0 is on 1, views:0 is on 1,2" in capsys.readouterr().err


def test_on_a_terminal_it_asks(
    fake: FakeCluster,
    plan: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert main(["reassign", "execute", plan]) == 1
    assert "nothing was moved" in capsys.readouterr().err
    assert fake.asked == []
    assert main(["reassign", "execute", plan, "--yes"]) == 0


@pytest.mark.parametrize("rate", ["0", "fast", "10XB"])
def test_a_throttle_is_a_number_of_bytes(
    fake: FakeCluster, plan: str, capsys: pytest.CaptureFixture[str], rate: str
) -> None:
    assert main(["reassign", "execute", plan, "--throttle", rate]) == 2
    assert "--throttle" in capsys.readouterr().err
