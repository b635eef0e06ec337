"""The entry point: what it prints, how it ends, and what it does not import."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla import __version__
from ottla.cli.main import main

HEAVY = ("asyncio", "click", "confluent_kafka", "rich")


def imported_by(args: list[str]) -> list[str]:
    code = (
        "import sys; from ottla.cli.main import main; main(sys.argv[1:]); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=True
    )
    modules: list[str] = eval(done.stdout.splitlines()[-1])
    return modules


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ottla {__version__}\n"


def test_version_imports_nothing_heavy() -> None:
    assert imported_by(["--version"]) == []


def test_start_imports_no_client_and_no_click() -> None:
    # A bad setting ends it as late as possible before it would serve.
    assert imported_by(["start", "--set", "num.partition=1"]) == []


def test_a_failure_is_one_line_and_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "--bootstrap", "127.0.0.1:1"]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "ottla: no broker answers at 127.0.0.1:1 (connection refused); start one with "
        "`ottla start` or pass --bootstrap HOST:PORT\n"
    )


def test_a_usage_error_is_one_line_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "create"]) == 2
    assert capsys.readouterr().err == (
        "ottla: missing argument 'NAME...'; see `ottla topics create --help`\n"
    )


def test_ctrl_c_is_130_where_it_cuts_work_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.cli.main._run", interrupted)

    assert main(["topics", "list"]) == 130
    assert main(["consume", "clicks"]) == 0


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = [sys.executable, "-m", "ottla", "completion", "bash"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_a_full_disk_is_one_line_and_1() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", "completion", "bash"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "ottla: could not write: No space left on device\n",
    )


def run_without_stdin_and_stdout(*args: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, *args]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)


def test_closed_streams_are_no_traceback() -> None:
    done = run_without_stdin_and_stdout("-m", "ottla", "pipeline", "list")
    assert (done.returncode, done.stderr) == (0, "")


def test_no_file_or_socket_takes_the_place_of_a_closed_stream() -> None:
    """A segment would, and what is printed would go into it."""
    code = """
import os, sys
from ottla.cli.main import open_closed_streams
open_closed_streams()
print("for nobody", flush=True)
print(sys.stdin.read(), os.dup(2) > 2, file=sys.stderr)
"""
    assert run_without_stdin_and_stdout("-c", code).stderr == " True\n"
