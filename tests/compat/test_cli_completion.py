"""Completion as a user has it: real shells, with the script loaded, and a real broker."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.need import need_command
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject

_TIMEOUT_S = 60
# A broker has 0.3 s to answer. A busy machine may not give it that; a user presses Tab again.
_TRIES = 20


class Shell:
    def __init__(self, bootstrap: str) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": path,
            "OTTLA_BOOTSTRAP": bootstrap,
            "TERM": "dumb",
            "PS1": "$ ",
        }

    def out(self, *command: str) -> list[str]:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    def typed(self, command: list[str], setup: str, keys: str) -> str:
        """What a terminal shows when these keys were pressed, and what they gave has run."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self.environment,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            os.write(ours, f"{setup}; echo rea''dy\n".encode())
            _read_until(ours, "ready")
            os.write(ours, f"{keys}; echo do''ne\n".encode())
            return _read_until(ours, "done")
        finally:
            process.kill()
            process.wait(_TIMEOUT_S)
            os.close(ours)


def _read_until(descriptor: int, text: str) -> str:
    os.set_blocking(descriptor, False)
    shown = b""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while text.encode() not in shown and time.monotonic() < deadline_s:
        try:
            shown += os.read(descriptor, 65536)
        except BlockingIOError:
            time.sleep(0.02)
    return shown.decode(errors="replace")


def again_until(expected: list[str], complete: Callable[[], list[str]]) -> list[str]:
    found: list[str] = []
    for _ in range(_TRIES):
        found = complete()
        if found == expected:
            break
    return found


@pytest.fixture
def shell(shared_broker: OttlaProcess, topic: str) -> Shell:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic)
    return Shell(shared_broker.bootstrap)


BASH = """\
source <(ottla completion bash)
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_ottla_completion ottla
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def test_bash(shell: Shell, topic: str) -> None:
    def in_bash(words: str) -> list[str]:
        return shell.out("bash", "-c", BASH.format(words=words))

    start = topic[:-2]
    assert again_until([topic], lambda: in_bash(f"ottla consume {start}")) == [topic]
    settings = ["retention.bytes=", "retention.ms="]
    words = f"ottla configs alter topic {topic} --set retention"
    assert again_until(settings, lambda: in_bash(words)) == settings


def test_fish(shell: Shell, topic: str) -> None:
    need_command("fish")
    script = f"ottla completion fish | source; complete -C 'ottla consume {topic[:-2]}'"

    complete = ["fish", "--no-config", "-c", script]
    assert again_until([topic], lambda: shell.out(*complete)) == [topic]


@pytest.mark.parametrize(
    ("command", "setup"),
    [
        (["bash", "--norc", "-i"], "source <(ottla completion bash)"),
        (
            ["zsh", "-f", "-i"],
            "PS1='$ '; autoload -Uz compinit; compinit -D -u; source <(ottla completion zsh)",
        ),
    ],
    ids=["bash", "zsh"],
)
def test_keys_on_a_terminal(shell: Shell, topic: str, command: list[str], setup: str) -> None:
    need_command(command[0])
    # The value follows the = without a space, the next word follows a topic with one.
    keys = f"ottla configs alter topic {topic[:-2]}\t--set retention.m\t5"
    altered = f"altered topic {topic}"
    shown = ""
    for _ in range(_TRIES):
        shown = shell.typed(command, setup, keys)
        if altered in shown:
            break
    assert altered in shown


def test_without_a_broker_all_is_silent() -> None:
    shell = Shell("127.0.0.1:1")

    assert shell.out("bash", "-c", BASH.format(words="ottla consume ''")) == [""]
