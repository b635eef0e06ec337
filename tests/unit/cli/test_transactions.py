"""`ottla transactions` without a cluster: what it prints, asks and refuses. tests/compat tries it
on brokers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.cli import transactions
from ottla.cli.main import main
from ottla.kernel.errors import ErrorCode
from tests.unit.cli.transactions_fake import NOW_MS, FakeCluster, producer, transaction

OPEN = [producer(7, start_offset=5, age_minutes=20), producer(8)]
ABORT = ["transactions", "abort", "--topic", "clicks", "--partition", "1"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(transactions, "run", fake.run_for)
    monkeypatch.setattr(transactions, "_now_ms", lambda: NOW_MS)
    return fake


def json_of(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


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
    assert "'(' is no regular expression of RE2" in capsys.readouterr().err


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


def test_find_hanging(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.producers["clicks", 1] = OPEN

    assert main(["transactions", "find-hanging"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [
        ["clicks", "1", "5", "7", "3", "-", "2023-11-14T21:53:20.000Z", "20", "min", "-"]
    ]

    longer = ["--max-transaction-timeout", "21"]
    assert json_of(capsys, "transactions", "find-hanging", *longer) == []


def test_a_search_that_did_not_see_everything_says_so(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.leaders["views", 0] = -1

    assert main(["transactions", "find-hanging", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert err == "ottla: could not look at views:0: it has no leader\n"


def test_a_plan_changes_nothing(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.producers["clicks", 1] = OPEN

    assert main([*ABORT, "--start-offset", "5"]) == 0
    out, err = capsys.readouterr()
    assert out == (
        "partition          clicks:1\n"
        "start offset       5\n"
        "producer id        7\n"
        "producer epoch     3\n"
        "coordinator epoch  0\n"
        "coordinator        knows nothing of this producer\n"
    )
    assert err == "ottla: this is the plan, nothing was changed; --execute does it\n"
    assert fake.markers == []


@pytest.mark.parametrize(
    ("which", "coordinator_epoch"),
    [
        (["--start-offset", "5"], 0),
        (["--producer-id", "7", "--producer-epoch", "3", "--coordinator-epoch", "4"], 4),
        (["--producer-id", "7", "--producer-epoch", "3", "--coordinator-epoch", "-1"], 0),
    ],
)
def test_abort(
    fake: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    which: list[str],
    coordinator_epoch: int,
) -> None:
    fake.producers["clicks", 1] = OPEN
    fake.transactions = [transaction("pay", 7, "CompleteCommit")]

    assert json_of(capsys, *ABORT, *which, "--execute") == {
        "executed": True,
        "topic": "clicks",
        "partition": 1,
        "start_offset": 5,
        "producer_id": 7,
        "producer_epoch": 3,
        "coordinator_epoch": coordinator_epoch,
        "transactional_id": "pay",
        "state": "CompleteCommit",
    }
    (marker,) = fake.markers
    assert (marker.producer_id, marker.coordinator_epoch) == (7, coordinator_epoch)
    assert not marker.transaction_result


def test_what_does_not_hang_is_aborted_only_by_force(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.producers["clicks", 1] = OPEN
    fake.transactions = [transaction("pay", 7, "PrepareCommit", ("clicks", 1))]
    which = [*ABORT, "--start-offset", "5", "--execute"]

    assert main(which) == 1
    assert "'pay' does not hang: its coordinator has it as PrepareCommit" in capsys.readouterr().err
    assert fake.markers == []
    assert main([*which, "--force"]) == 0
    assert len(fake.markers) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, "the transaction has ended meanwhile"),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, "a newer epoch of the coordinator"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "could not abort in clicks:1: CLUSTER_AUTH"),
    ],
)
def test_a_refused_marker_is_explained(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str], code: ErrorCode, words: str
) -> None:
    fake.producers["clicks", 1] = OPEN
    fake.marker_error = code

    assert main([*ABORT, "--start-offset", "5", "--execute"]) == 1
    err = capsys.readouterr().err
    assert words in err
    assert code.name in err


def test_what_is_not_open_cannot_be_aborted(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ABORT, "--start-offset", "6"]) == 1
    assert "no such transaction is open in clicks:1; none is" in capsys.readouterr().err
    fake.producers["clicks", 1] = OPEN
    assert main([*ABORT, "--start-offset", "6"]) == 1
    assert "open are those from 5" in capsys.readouterr().err
    fake.producers_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert main([*ABORT, "--start-offset", "6"]) == 1
    assert "cannot look at clicks:1: NOT_LEADER_OR_FOLLOWER" in capsys.readouterr().err


def test_failures_of_describe(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transactions", "describe", "nope"]) == 1
    assert "there is no transactional id 'nope'" in capsys.readouterr().err
    fake.leaders["clicks", 1] = -1
    assert main(["transactions", "describe", "-t", "clicks", "-p", "1"]) == 1
    assert "the producers of clicks:1: it has no leader" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["describe"],
        ["describe", "pay", "--topic", "clicks"],
        ["describe", "--topic", "clicks"],
        ["describe", "--partition", "0"],
        ["find-hanging", "--partition", "0"],
        ["list", "--state", "Sleeping"],
        ["list", "--running-longer-than", "soon"],
        ["abort", "--topic", "clicks", "--partition", "0"],
        ["abort", "-t", "clicks", "-p", "0", "--producer-id", "7", "--producer-epoch", "1"],
        ["abort", "-t", "clicks", "-p", "0", "--start-offset", "5", "--producer-id", "7"],
    ],
    ids=" ".join,
)
def test_usage_errors(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert main(["transactions", *args]) == 2
    assert capsys.readouterr().err.startswith("ottla: ")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.0 s"),
        (59_949, "59.9 s"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (86_460_000, "24 h 1 min"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert transactions.duration_text(milliseconds) == text
