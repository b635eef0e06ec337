"""`ottla transactions list` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main
from ottla.kernel.errors import ErrorCode
from tests.unit.cli.transactions.fake_cluster import (
    FakeCluster,
    json_of,
    transaction,
)


def test_list(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.transactions = [transaction("pay-1", 7, "Ongoing"), transaction("idle", 1000, "Empty")]

    assert main(["transactions", "list"]) == 0
    assert capsys.readouterr().out == (
        "TRANSACTIONAL ID  COORDINATOR  PRODUCER ID  STATE\n"
        "idle                        2         1000  Empty\n"
        "pay-1                       2            7  Ongoing\n"
    )
    assert json_of(capsys, "transactions", "list")[1] == {
        "transactional_id": "pay-1",
        "coordinator_id": 2,
        "producer_id": 7,
        "state": "Ongoing",
    }


def test_filters_are_the_brokers_work(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["--state", "ongoing", "--producer-id", "7", "--running-longer-than", "2m"]
    json_of(capsys, "transactions", "list", *args, "--transactional-id-pattern", "pay-.*")
    json_of(capsys, "transactions", "list")

    filtered, _, plain, _ = fake.listings
    assert filtered.state_filters == ["Ongoing"]
    assert filtered.producer_id_filters == [7]
    assert filtered.duration_filter == 120_000
    assert filtered.transactional_id_pattern == "pay-.*"
    assert (plain.duration_filter, plain.transactional_id_pattern) == (-1, None)


def test_a_bad_pattern_is_said(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.list_errors = [ErrorCode.INVALID_REGULAR_EXPRESSION]

    assert main(["transactions", "list", "--transactional-id-pattern", "("]) == 1
    assert "'(' is not a regular expression of RE2" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--state", "Sleeping"], ["--running-longer-than", "soon"]])
def test_usage_errors(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert main(["transactions", "list", *args]) == 2
    assert capsys.readouterr().err.startswith("ottla: ")


def test_none_yet_is_told_from_none_of_this_kind(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    assert main(["transactions", "list"]) == 0
    assert capsys.readouterr().out.startswith("No transactions yet. ")
    assert main(["transactions", "list", "--state", "Ongoing"]) == 0
    assert capsys.readouterr().out == "No such transactions.\n"
