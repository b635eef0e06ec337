"""Commands in hints are those that this user can type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import ottla.cli
from ottla.cli.command_line import command_line
from ottla.cli.group import group
from ottla.cli.main import main

CLI = Path(ottla.cli.__file__).parent
COMMANDS = "|".join(group.list_commands(click.Context(group)))


def test_an_installed_ottla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_COMMAND", raising=False)
    assert command_line("topics list") == "ottla topics list"


def test_the_script_of_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_COMMAND", "./ottla")
    assert command_line("topics list") == "./ottla topics list"
    monkeypatch.setenv("OTTLA_COMMAND", "../my code/ottla")
    assert command_line("topics list") == "'../my code/ottla' topics list"


def test_errors_name_it_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTTLA_COMMAND", "./ottla")
    for args, hint in (
        (["topics", "list", "--bootstrap", "127.0.0.1:1"], "start one with `./ottla start`"),
        (["topics", "frobnicate"], "see `./ottla topics --help`"),
        (["frobnicate"], "see `./ottla --help`"),
        (["topics", "create"], "see `./ottla topics create --help`"),
    ):
        assert main(args) != 0
        assert hint in capsys.readouterr().err


def texts_of(path: Path) -> Iterator[str]:
    """All but docstrings, which are help texts or for us, and other help texts."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and id(node) not in docstrings and "\b\n" not in value:
            yield value


def test_no_message_spells_the_command_itself() -> None:
    command = re.compile(rf"(?<![./])\bottla ({COMMANDS})\b")
    found = [
        f"{path.relative_to(CLI)}: {text.strip()}"
        for path in sorted(CLI.rglob("*.py"))
        for text in texts_of(path)
        if command.search(text)
    ]
    # The page's title is the demo's name.
    assert found == ["demo/page.py: ottla demo"]
