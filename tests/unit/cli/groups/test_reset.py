"""`ottla groups reset` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import AdminClient

from ottla.cli.errors import Failure
from ottla.cli.groups.plan import Move
from ottla.cli.groups.reset import commit, is_there_and_idle, make_plan
from ottla.cli.main import main
from tests.unit.cli.groups.fake_admin import FakeAdmin, member

LATEST = {("clicks", 0): 10, ("clicks", 1): 20}


def as_admin(fake: FakeAdmin) -> AdminClient:
    return cast("AdminClient", fake)


@pytest.mark.parametrize(
    ("state", "type", "words"),
    [
        (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC, r"\(Stable, members: 1\)"),
        (
            ConsumerGroupState.PREPARING_REBALANCING,
            ConsumerGroupType.CLASSIC,
            r"\(PreparingRebalance",
        ),
        (ConsumerGroupState.UNKNOWN, ConsumerGroupType.CONSUMER, r"\(Rebalancing"),
    ],
)
def test_a_group_with_members_is_refused(
    state: ConsumerGroupState, type: ConsumerGroupType, words: str
) -> None:
    fake = FakeAdmin(members={"g": [member("m")]}, state=state, type=type)

    with pytest.raises(Failure, match=f"'g' is active {words}.*stop its consumers"):
        is_there_and_idle(as_admin(fake), "g")


def test_a_group_without_members_is_told_from_one_that_is_not_there() -> None:
    assert is_there_and_idle(as_admin(FakeAdmin(committed={"g": {}})), "g")
    assert not is_there_and_idle(as_admin(FakeAdmin()), "g")


@pytest.mark.parametrize(
    ("target", "value", "new"),
    [
        ("to_earliest", True, [2, 0]),
        ("to_latest", True, [10, 20]),
        ("to_offset", 7, [7, 7]),
        ("to_offset", 15, [10, 15]),
        ("shift_by", -4, [2, 1]),
        ("from_file", {("clicks", 0): 3, ("clicks", 1): 2}, [3, 2]),
        # Behind the last record of the other partition, where the next one will be.
        ("to_time", 1_700_000_000_000, [3, 20]),
    ],
)
def test_targets(target: str, value: Any, new: list[int]) -> None:
    fake = FakeAdmin(latest=LATEST)
    fake.earliest[("clicks", 0)] = 2
    fake.by_time[("clicks", 0)] = 3
    committed = {("clicks", 0): 4, ("clicks", 1): 5}

    plan = make_plan(as_admin(fake), list(LATEST), committed, target, value)

    assert [move.new_offset for move in plan] == new
    assert [move.committed_offset for move in plan] == [4, 5]


def test_a_partition_without_leader_cannot_be_planned() -> None:
    fake = FakeAdmin(latest={("clicks", 0): 10})

    with pytest.raises(Failure, match="clicks:1 has no leader"):
        make_plan(as_admin(fake), list(LATEST), {}, "to_latest", True)


def test_a_plan_is_committed_whole() -> None:
    fake = FakeAdmin()
    plan = [Move("clicks", 0, 4, 7, 0, 10, ""), Move("clicks", 1, None, 9, 0, 20, "")]

    commit(as_admin(fake), "g", plan)
    assert fake.altered == [("g", {("clicks", 0): 7, ("clicks", 1): 9})]

    fake.alter_error = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    with pytest.raises(Failure, match=r"could not reset clicks:0: .*; clicks:1: "):
        commit(as_admin(fake), "g", plan)


def test_a_plan_is_shown_and_not_done(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "reset", "billing", "--topic", "clicks", "--to-offset", "500"]) == 0

    out, err = capsys.readouterr()
    assert out == (
        "TOPIC   PARTITION  COMMITTED  NEW  LAG  NOTE\n"
        "clicks          0          4   10    0  500 is after the latest\n"
        "clicks          1          -  500  500\n"
    )
    assert err == "ottla: this is the plan, nothing was changed; --execute does it\n"
    assert fake.altered == []


def test_execute(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["groups", "reset", "billing", "--topic", "clicks:1", "--to-latest", "--execute"]
    assert main(args) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "reset billing"
    assert fake.altered == [("billing", {("clicks", 1): 1000})]


def test_execute_from_a_file_in_json(
    fake: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text("clicks,1,700\n")
    args = ["groups", "reset", "billing", "--from-file", str(path), "--execute", "--json"]
    assert main(args) == 0

    assert json.loads(capsys.readouterr().out) == {
        "group": "billing",
        "executed": True,
        "partitions": [
            {
                "topic": "clicks",
                "partition": 1,
                "committed_offset": None,
                "new_offset": 700,
                "earliest_offset": 0,
                "latest_offset": 1000,
                "note": "",
            }
        ],
    }
    assert fake.altered == [("billing", {("clicks", 1): 700})]


def test_all_topics_are_those_with_offsets(
    fake: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    # A shift by nothing is one, and so is the offset 0.
    assert main(["groups", "reset", "billing", "--all-topics", "--shift-by", "0", "--json"]) == 0
    (move,) = json.loads(capsys.readouterr().out)["partitions"]
    assert (move["partition"], move["new_offset"]) == (0, 4)

    fake.members["other"] = []
    assert main(["groups", "reset", "other", "--all-topics", "--to-offset", "0"]) == 1
    assert "'other' has committed nothing yet" in capsys.readouterr().err


def test_a_group_that_is_not_there(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "reset", "biling", "--all-topics", "--to-latest"]) == 1
    assert capsys.readouterr().err == (
        "ottla: there is no group 'biling'; did you mean 'billing'?\n"
    )

    # It may be a new one that shall begin somewhere.
    args = ["groups", "reset", "biling", "-t", "clicks:1", "--to-latest", "--execute"]
    assert main(args) == 0
    assert capsys.readouterr().err == (
        "ottla: there is no group 'biling'; did you mean 'billing'? (a reset makes it)\n"
    )
    assert fake.altered == [("biling", {("clicks", 1): 1000})]


def test_an_active_group_is_refused(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    fake.members["billing"] = [member("m-1")]

    assert main(["groups", "reset", "billing", "--all-topics", "--to-latest", "--execute"]) == 1
    assert "'billing' is active (Stable, members: 1)" in capsys.readouterr().err
    assert fake.altered == []


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["-t", "clicks"], "say where to, by one of --to-earliest, --to-latest, --to-offset,"),
        (["-t", "clicks", "--to-latest", "--shift-by", "1"], "say where to, by one of"),
        (["--to-latest"], "say which partitions: either --topic or --all-topics"),
        (["-t", "clicks", "--all-topics", "--to-latest"], "say which partitions"),
        (["-t", "clicks:x", "--to-latest"], "'--topic'"),
        (["-t", "clicks", "--to-datetime", "soon"], "'--to-datetime'"),
        (["-t", "clicks", "--by-duration", "soon"], "'--by-duration'"),
        (["-t", "clicks", "--to-offset", "-1"], "'--to-offset'"),
        (["--from-file", "/no/such/file"], "'--from-file'"),
    ],
)
def test_usage_errors_of_reset(
    args: list[str], complaint: str, fake: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", "reset", "billing", *args]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_says_itself_which_partitions(
    fake: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text("clicks,1,7\n")

    assert main(["groups", "reset", "billing", "--from-file", str(path), "--all-topics"]) == 2
    assert "--from-file says itself which partitions" in capsys.readouterr().err
