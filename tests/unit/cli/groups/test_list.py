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
        ["GROUP", "STATE", "TYPE"],
        ["a", "Stable", "classic"],
        ["billing", "Empty", "classic"],
    ]
    assert main(["groups", "list", "--names"]) == 0
    assert capsys.readouterr().out == "a\nbilling\n"
