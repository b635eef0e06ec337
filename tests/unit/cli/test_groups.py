"""`ottla groups` without a cluster: what it prints, asks and refuses. tests/compat tries it on
brokers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.main import main
from ottla.kernel.errors import ErrorCode
from tests.unit.cli.groups_fake import FakeAdmin, member

LATEST = {("clicks", 0): 10, ("clicks", 1): 1000}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin(committed={"billing": {("clicks", 0): 4}}, latest=LATEST)
    monkeypatch.setattr(Cluster, "admin", lambda _: fake)
    return fake


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_list(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    fake.members["a"] = [member("m")]

    assert main(["groups", "list"]) == 0
    assert words(capsys.readouterr().out) == [
        ["GROUP", "STATE", "TYPE"],
        ["a", "Stable", "classic"],
        ["billing", "Empty", "classic"],
    ]
    assert main(["groups", "list", "--names"]) == 0
    assert capsys.readouterr().out == "a\nbilling\n"


def test_a_group_is_shown_with_offsets_and_members(
    fake: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.members["billing"] = [member("m-1", *LATEST, instance_id="i-1"), member("m-2")]

    assert main(["groups", "describe", "billing"]) == 0
    assert capsys.readouterr().out == (
        "billing\n"
        "state        Stable\n"
        "type         classic\n"
        "assignor     range\n"
        "coordinator  1 at localhost:9092\n"
        "lag          6\n"
        "\n"
        "TOPIC   PARTITION  COMMITTED  LATEST  LAG  MEMBER\n"
        "clicks          0          4      10    6  m-1\n"
        "clicks          1          -    1000    -  m-1\n"
        "\n"
        "MEMBER  CLIENT         HOST        INSTANCE  PARTITIONS\n"
        "m-1     client of m-1  /127.0.0.1  i-1       clicks:0,1\n"
        "m-2     client of m-2  /127.0.0.1  -         -\n"
    )


def test_without_names_all_groups_are_shown(
    fake: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.committed["audit"] = {}

    assert main(["groups", "describe", "--json"]) == 0
    assert [group["group"] for group in json.loads(capsys.readouterr().out)] == ["audit", "billing"]


def test_watch(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["groups", "describe", "--watch", "--interval", "0.1", "--samples", "2"]
    assert main(args) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"^\S+  ", "", line) for line in lines] == [
        "billing  Empty  0 members  lag 6  -",
        "billing  Empty  0 members  lag 6  steady",
    ]


def test_a_plan_is_shown_and_not_done(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "reset", "billing", "--topic", "clicks", "--to-offset", "500"]) == 0

    out, err = capsys.readouterr()
    assert out == (
        "TOPIC   PARTITION  COMMITTED  NEW  LAG  NOTE\n"
        "clicks          0          4   10    0  500 is behind the latest\n"
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

    assert main(["groups", "reset", "other", "--all-topics", "--to-offset", "0"]) == 1
    assert "'other' has committed nothing yet" in capsys.readouterr().err


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


def test_delete(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "delete", "billing", "billing"]) == 0
    assert capsys.readouterr().out == "deleted billing\n"
    assert fake.deleted == ["billing"]

    assert main(["groups", "delete", "billing", "other"]) == 1
    out, err = capsys.readouterr()
    assert out == "deleted billing\n"
    assert err.startswith("ottla: could not delete other: ")
    assert "GROUP_ID_NOT_FOUND" in err


def test_nothing_is_deleted_unless_confirmed(
    fake: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)

    assert main(["groups", "delete", "billing"]) == 1
    assert main(["groups", "delete-offsets", "billing", "-t", "clicks"]) == 1
    assert capsys.readouterr().err == "ottla: nothing was deleted\n" * 2
    assert fake.deleted == []


def test_delete_offsets(
    fake: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Any, ...]] = []

    def delete_offsets(_: Cluster, *args: Any) -> dict[tuple[str, int], ErrorCode]:
        asked.append(args)
        return {("clicks", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("clicks", 1): ErrorCode.NONE}

    monkeypatch.setattr("ottla.cli.groups_offset_delete.delete_offsets", delete_offsets)
    fake.committed["billing"][("clicks", 1)] = 5

    assert main(["groups", "delete-offsets", "billing", "--topic", "clicks", "--json"]) == 1

    assert asked == [("localhost", 9092, "billing", [("clicks", 0), ("clicks", 1)])]
    assert json.loads(capsys.readouterr().out) == {
        "deleted": ["clicks:1"],
        "failed": {
            "clicks:0": "members of the group are reading the topic (GROUP_SUBSCRIBED_TO_TOPIC)"
        },
    }


@pytest.mark.parametrize(
    ("args", "exit_code", "complaint"),
    [
        (["billing"], 2, "say which offsets: --topic TOPIC[:P,P]"),
        (["other", "-t", "clicks"], 1, "there is no group 'other'"),
        (["billing", "-t", "views"], 1, "'billing' has committed nothing in views"),
        (["billing", "-t", "clicks:0,1,2"], 1, "has committed nothing in clicks:1, clicks:2"),
    ],
)
def test_offsets_that_are_not_there(
    args: list[str],
    exit_code: int,
    complaint: str,
    fake: FakeAdmin,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["groups", "delete-offsets", *args]) == exit_code
    assert complaint in capsys.readouterr().err
