"""`ottla reassign plan`."""

from __future__ import annotations

import json

import pytest

from ottla.cli.main import main
from tests.unit.cli.reassign.fake_cluster import FakeCluster


def test_the_plan_is_shown_and_nothing_is_done(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.sizes = {(1, "clicks", 1): 2_000}
    assert main(["reassign", "plan", "--topic", "clicks"]) == 0
    assert capsys.readouterr().out == (
        "TOPIC   PARTITION  REPLICAS  NEW  COPIED\n"
        "clicks          0  1         3       0 B\n"
        "clicks          1  1         2    2.0 kB\n"
        "\n"
        "2 partitions change; 2 replicas are copied, 2.0 kB\n"
    )
    assert fake.asked == []


def test_the_file_of_kafka(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reassign", "plan", "--topic", "clicks:0", "--brokers", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "partitions": [{"topic": "clicks", "partition": 0, "replicas": [2]}],
    }


def test_nothing_to_move(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reassign", "plan", "--topic", "clicks", "--brokers", "1"]) == 0
    assert capsys.readouterr().out == "nothing to move: 3 partitions on broker 1\n"
    fake.replicas.clear()
    assert main(["reassign", "plan"]) == 0
    assert capsys.readouterr().out == "nothing to move: the cluster has no topics\n"


@pytest.mark.parametrize(
    ("args", "exit_code", "words"),
    [
        ("--brokers 1,x", 2, "'1,x' is not ID,ID"),
        ("--brokers 7", 1, "there is no broker 7; the cluster has 1, 2, 3"),
        ("--topic click", 1, "did you mean 'clicks'?"),
        ("--topic clicks:9", 1, "no 9 among them"),
        ("--replication-factor 4", 1, "4 replicas of a partition need 4 brokers, and there are 3"),
        ("--brokers 1", 1, "2 replicas of a partition need 2 brokers, and there is 1"),
    ],
)
def test_what_cannot_be_planned(
    fake: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    args: str,
    exit_code: int,
    words: str,
) -> None:
    assert main(["reassign", "plan", *args.split()]) == exit_code
    assert words in capsys.readouterr().err


def test_what_moves_already(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.move(("clicks", 0), [3])
    assert main(["reassign", "plan"]) == 1
    error = capsys.readouterr().err
    assert "clicks:0 is being moved already" in error
    assert "ottla reassign cancel" in error
    assert main(["reassign", "plan", "--topic", "views"]) == 0
