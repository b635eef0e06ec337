"""`ottla groups list` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main
from tests.unit.cli.groups.fake_admin import FakeAdmin, member


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_list(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    fake.members["a"] = [member("m")]

    assert main(["groups", "list"]) == 0
    assert words(capsys.readouterr().out) == [
        ["GROUP", "STATE", "MEMBERS", "LAG", "TYPE"],
        ["a", "Stable", "1", "-", "classic"],
        ["billing", "Empty", "0", "6", "classic"],
    ]
    assert main(["groups", "list", "--names"]) == 0
    assert capsys.readouterr().out == "a\nbilling\n"


def test_a_cluster_without_groups(
    fake: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.committed.clear()

    assert main(["groups", "list"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["groups", "list", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["groups", "list"]) == 0
    assert main(["groups", "describe"]) == 0
    sentence = "No groups yet. Make one: ottla consume TOPIC --group NAME\n"
    assert capsys.readouterr().out == 2 * sentence
