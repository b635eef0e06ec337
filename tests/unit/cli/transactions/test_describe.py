"""`ottla transactions describe` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main
from tests.unit.cli.transactions.fake_cluster import (
    NOW_MS,
    FakeCluster,
    json_of,
    producer,
    transaction,
)

OPEN = [producer(7, start_offset=5, age_minutes=20), producer(8)]


def test_describe(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    where = [("clicks", 0), ("views", 0)]
    fake.transactions = [
        transaction("pay", 7, "Ongoing", *where, started_ms=NOW_MS - 90_000),
        transaction("idle", 8, "Empty"),
    ]

    assert main(["transactions", "describe", "pay", "idle"]) == 0
    assert capsys.readouterr().out == (
        "pay\n"
        "state           Ongoing\n"
        "coordinator     2 at localhost:9002\n"
        "producer id     7\n"
        "producer epoch  3\n"
        "time-out        1 min\n"
        "started         2023-11-14T22:11:50.000Z, 1 min 30 s ago\n"
        "partitions      clicks:0 views:0\n"
        "\n"
        "idle\n"
        "state           Empty\n"
        "coordinator     2 at localhost:9002\n"
        "producer id     8\n"
        "producer epoch  3\n"
        "time-out        1 min\n"
        "started         -\n"
        "partitions      -\n"
    )
    (found,) = json_of(capsys, "transactions", "describe", "idle")
    assert found["start_time_ms"] is None


def test_describe_the_producers_of_a_partition(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.producers["clicks", 1] = OPEN
    args = ["transactions", "describe", "--topic", "clicks", "--partition", "1"]

    assert main(args) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["7", "3", "-", "8", "2023-11-14T21:53:20.000Z", "5"],
        ["8", "3", "-", "8", "2023-11-14T22:13:20.000Z", "-"],
    ]
    found = json_of(capsys, *args)
    assert (found["topic"], found["partition"], found["broker_id"]) == ("clicks", 1, 2)
    assert [one["start_offset"] for one in found["producers"]] == [5, None]


def test_failures_of_describe(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transactions", "describe", "nope"]) == 1
    assert "there is no transactional id 'nope'; see `ottla" in capsys.readouterr().err
    fake.transactions = [transaction("payments", 7, "Ongoing")]
    assert main(["transactions", "describe", "paymnets"]) == 1
    assert "no transactional id 'paymnets'; did you mean 'payments'?" in capsys.readouterr().err
    fake.leaders["clicks", 1] = -1
    assert main(["transactions", "describe", "-t", "clicks", "-p", "1"]) == 1
    assert "the producers of clicks:1: it has no leader" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [[], ["pay", "--topic", "clicks"], ["--topic", "clicks"], ["--partition", "0"]],
    ids=" ".join,
)
def test_usage_errors(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert main(["transactions", "describe", *args]) == 2
    assert capsys.readouterr().err.startswith("ottla: ")
