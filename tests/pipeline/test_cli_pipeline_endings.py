"""How commands that start Java end on Ctrl-C and on SIGTERM, on a terminal: no traceback, and
neither a JVM nor a Python worker of Spark is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.counts import IS_FULL
from tests.support.need import need_java
from tests.support.ottla_process import OttlaProcess
from tests.support.pipeline_cli import PipelineCli
from tests.support.terminal import Terminal

COMMANDS = ("pipeline run", "pipeline replay", "pipeline prepare", "demo", "zookeeper")
MOMENTS_S = (0.0, 0.5, 1.5, 3.0, 5.0, 8.0, 12.0, 16.0)
SOME_MOMENTS = [
    ("pipeline run", 0.2, signal.SIGINT),
    ("pipeline run", 3.0, signal.SIGTERM),
    ("pipeline replay", 1.5, signal.SIGINT),
    ("pipeline prepare", 3.0, signal.SIGINT),
    ("demo", 4.0, signal.SIGTERM),
    ("zookeeper", 0.5, signal.SIGTERM),
]
ALL_MOMENTS = [
    (command, moment_s, signal.SIGTERM if index % 3 == 2 else signal.SIGINT)
    for command in COMMANDS
    for index, moment_s in enumerate(MOMENTS_S)
]
CUT_SHORT = ("pipeline replay", "pipeline prepare")
END_S = 60.0
"""A busy machine is slow."""
BAD_WORDS = ("Traceback", "Py4J", "Exception", "Error", "incubator", "WARN")
RECORDS = 300
RUNNING = "Ctrl-C ends; `ottla pipeline status logs`"


@pytest.fixture
def cli(shared_broker: OttlaProcess, tmp_path: Path) -> PipelineCli:
    need_java()
    return PipelineCli(shared_broker.bootstrap, tmp_path)


@pytest.fixture(scope="module")
def topic(shared_broker: OttlaProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    cli = PipelineCli(shared_broker.bootstrap, tmp_path_factory.mktemp("endings"))
    topic = "endings-logs"
    cli.run("generate", "logs", "--count", str(RECORDS), "--rate", "5", "--fast", "--topic", topic)
    return topic


@pytest.fixture
def environment(shared_broker: OttlaProcess, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    return {"OTTLA_BOOTSTRAP": shared_broker.bootstrap, "TMPDIR": str(tmp_path / "tmp")}


def arguments(cli: PipelineCli, topic: str, command: str = "run") -> list[str]:
    return [one for one in cli.job_args(command, topic) if one != "--json"]


def check(terminal: Terminal, exit_code: int) -> None:
    found = terminal.wait(END_S)
    assert not [word for word in BAD_WORDS if word in terminal.text], terminal.text
    assert found == exit_code, terminal.text
    assert terminal.has_cursor
    # Workers of Spark hear of the end of their JVM a moment later.
    _, alive = psutil.wait_procs(terminal.left(), timeout=END_S)
    assert alive == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("command", "moment_s", "number"), ALL_MOMENTS if IS_FULL else SOME_MOMENTS
)
def test_while_it_starts(
    cli: PipelineCli,
    topic: str,
    environment: dict[str, str],
    command: str,
    moment_s: float,
    number: signal.Signals,
) -> None:
    args = {
        "pipeline run": arguments(cli, topic),
        "pipeline replay": [*arguments(cli, topic, "replay"), "--from", "0", "--yes"],
        "pipeline prepare": ["pipeline", "prepare"],
        "demo": ["demo"],
        "zookeeper": ["zookeeper", "--listen", "127.0.0.1:0", "--data-dir", str(cli.folder / "z")],
    }
    if command == "pipeline prepare":  # what is prepared already would be done at once
        environment["XDG_CACHE_HOME"] = str(cli.folder / "cache")
    with Terminal(args[command], environment) as terminal:
        terminal.wait_until_signals_are_taken()
        terminal.watch(moment_s)
        if number == signal.SIGINT:
            terminal.press_control_c()
        else:
            terminal.process.send_signal(number)
        check(terminal, 130 if command in CUT_SHORT else 0)
    left = os.listdir(environment["TMPDIR"])
    assert [name for name in left if not name.endswith(".html")] == []


@pytest.mark.timeout(300)
def test_a_pipeline_that_runs(cli: PipelineCli, topic: str, environment: dict[str, str]) -> None:
    with Terminal(arguments(cli, topic), environment) as terminal:
        terminal.wait_for(RUNNING, 200)
        terminal.press_control_c()
        check(terminal, 0)
    assert "stopped; `ottla pipeline run logs` continues from here" in terminal.text
    assert {one["state"] for one in cli.status().values()} == {"ended"}
    assert cli.rows("logs") + cli.rows("dead_letters") == RECORDS
    assert os.listdir(environment["TMPDIR"]) == []


@pytest.mark.timeout(300)
def test_a_second_control_c_does_not_wait(
    cli: PipelineCli, topic: str, environment: dict[str, str]
) -> None:
    with Terminal([*arguments(cli, topic), "--once"], environment) as terminal:
        terminal.wait_for("no batch yet after", 200)
        terminal.press_control_c()
        terminal.press_control_c()
        check(terminal, 130)


@pytest.mark.timeout(300)
def test_java_ends_with_the_process_that_is_killed(
    cli: PipelineCli, topic: str, environment: dict[str, str]
) -> None:
    with Terminal(arguments(cli, topic), environment) as terminal:
        terminal.wait_for("starting Spark", 100)
        while not [one for one in terminal.left() if one.name() == "java"]:
            terminal.watch(0.1)
        terminal.process.kill()
        terminal.process.wait()
        _, alive = psutil.wait_procs(terminal.left(), timeout=END_S)
        assert alive == []


@pytest.mark.timeout(300)
def test_java_that_is_killed(cli: PipelineCli, topic: str, environment: dict[str, str]) -> None:
    """Every connection to it breaks, each on a thread of its own, as at a second Ctrl-C."""
    with Terminal(arguments(cli, topic), environment) as terminal:
        terminal.wait_for("no batch yet after", 200)
        for one in terminal.left():
            if one.name() == "java":
                one.kill()
        check(terminal, 1)
    assert terminal.text.count("ottla: Java, which runs Spark, died (signal 9); ") == 1
