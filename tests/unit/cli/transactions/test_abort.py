"""`ottla transactions abort` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main
from ottla.kernel.errors import ErrorCode
from tests.unit.cli.transactions.fake_cluster import (
    FakeCluster,
    json_of,
    producer,
    transaction,
)

OPEN = [producer(7, start_offset=5, age_minutes=20), producer(8)]
ABORT = ["transactions", "abort", "--topic", "clicks", "--partition", "1"]


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


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--producer-id", "7", "--producer-epoch", "1"],
        ["--start-offset", "5", "--producer-id", "7"],
    ],
    ids=" ".join,
)
def test_usage_errors(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert main([*ABORT, *args]) == 2
    assert capsys.readouterr().err.startswith("ottla: ")
