"""`ottla groups delete` and `delete-offsets` without a cluster; tests/compat tries them
on brokers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.main import main
from ottla.kernel.errors import ErrorCode
from tests.unit.cli.groups.fake_admin import FakeAdmin


def test_delete(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "delete", "billing", "billing"]) == 0
    assert capsys.readouterr().out == "deleted billing\n"
    assert fake.deleted == ["billing"]

    assert main(["groups", "delete", "billing", "other"]) == 1
    out, err = capsys.readouterr()
    assert out == "deleted billing\n"
    assert err.startswith("ottla: could not delete other: ")
    assert "GROUP_ID_NOT_FOUND" in err
    assert main(["groups", "delete", "biling"]) == 1
    err = capsys.readouterr().err
    assert err.endswith("(GROUP_ID_NOT_FOUND); did you mean 'billing'?\n")


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

    monkeypatch.setattr("ottla.cli.groups.offset_delete.delete_offsets", delete_offsets)
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
