"""The command group: help, usage errors, and commands that can be imported."""

from __future__ import annotations

import click
import pytest

from ottla.cli.group import group, run_group

COMMANDS = group.list_commands(click.Context(group))


def all_commands() -> list[list[str]]:
    context = click.Context(group)
    paths = []
    for name in COMMANDS:
        command = group.get_command(context, name)
        paths.append([name])
        if isinstance(command, click.Group):
            paths += [[name, inner] for inner in command.list_commands(context)]
    # bench hands everything on, --help too.
    return [path for path in paths if path != ["bench"]]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_group(["--help"]) == 0

    out = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []


@pytest.mark.parametrize("path", all_commands(), ids=" ".join)
def test_every_command_has_help(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_group([*path, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: ottla {' '.join(path)} ")


def test_without_a_command_it_shows_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_group([]) == 2
    assert "Usage: ottla" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["frob"], "ottla: no such command 'frob'"),
        (["topics", "--frob"], "ottla: no such option '--frob'"),
        (["consume", "t", "--max", "x"], "ottla: invalid value for '-n' / '--max'"),
        (["topics", "list", "--bootstrap", "a:b"], "ottla: invalid value for '--bootstrap'"),
    ],
)
def test_usage_errors_are_one_line(
    args: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_group(args) == 2

    err = capsys.readouterr().err
    assert err.startswith(line)
    assert err.count("\n") == 1
    assert "--help`" in err


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["topcs"], "no such command 'topcs'; did you mean 'topics'?"),
        (["Consume", "t"], "no such command 'Consume'; did you mean 'consume'?"),
        (["topics", "ls"], "no such command 'ls'; did you mean 'list'?"),
        (["pipeline", "runn"], "no such command 'runn'; did you mean 'run'?"),
        (["consume", "t", "--from-begining"], "option '--from-begining'; did you mean '--from-b"),
    ],
)
def test_what_was_meant_is_asked(
    args: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_group(args) == 2

    err = capsys.readouterr().err
    assert line in err
    assert err.endswith("?\n")
    assert err.count("\n") == 1
