"""Shell completion."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_ottla(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"_OTTLA_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_another_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ottla top", ["topics"]),
        ("ottla topics de", ["delete", "describe"]),
        ("ottla start --data", ["--data-dir"]),
        ("ottla start --log-level w", ["warning"]),
    ],
)
def test_it_completes(words: str, completed: list[str]) -> None:
    environment = {
        **os.environ,
        "_OTTLA_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    command = [sys.executable, "-m", "ottla"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == completed
