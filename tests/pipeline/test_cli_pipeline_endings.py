"""How a pipeline, and the demo, end on Ctrl-C, on a terminal: no traceback, and neither a JVM nor a
Python worker of Spark is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tests.support.counts import IS_FULL
from tests.support.need import need_java
from tests.support.ottla_process import OttlaProcess
from tests.support.pipeline_cli import PipelineCli
from tests.support.terminal import Terminal

MOMENTS_S = (0.0, 0.5, 1.5, 3.0, 5.0, 8.0, 12.0, 16.0) if IS_FULL else (0.2, 3.0)
DEMO_MOMENTS_S = MOMENTS_S if IS_FULL else (4.0,)
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


def arguments(cli: PipelineCli, topic: str) -> list[str]:
    return [one for one in cli.job_args("run", topic) if one != "--json"]


def check(terminal: Terminal, exit_code: int) -> None:
    found = terminal.wait(END_S)
    assert not [word for word in BAD_WORDS if word in terminal.text], terminal.text
    assert found == exit_code, terminal.text
    assert terminal.has_cursor
    # Workers of Spark hear of the end of their JVM a moment later.
    _, alive = psutil.wait_procs(terminal.left(), timeout=END_S)
    assert alive == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_pipeline_while_it_starts(
    cli: PipelineCli, topic: str, environment: dict[str, str], moment_s: float
) -> None:
    with Terminal(arguments(cli, topic), environment) as terminal:
        terminal.wait_until_signals_are_taken()
        terminal.watch(moment_s)
        terminal.press_control_c()
        check(terminal, 0)


@pytest.mark.timeout(300)
def test_a_pipeline_that_runs(cli: PipelineCli, topic: str, environment: dict[str, str]) -> None:
    with Terminal(arguments(cli, topic), environment) as terminal:
        terminal.wait_for(RUNNING, 200)
        terminal.press_control_c()
        check(terminal, 0)
    assert "stopped; `ottla pipeline run logs` goes on from here" in terminal.text
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment_s", DEMO_MOMENTS_S)
def test_the_demo(environment: dict[str, str], moment_s: float) -> None:
    need_java()
    with Terminal(["demo"], environment) as terminal:
        terminal.wait_until_signals_are_taken()
        terminal.watch(moment_s)
        terminal.press_control_c()
        check(terminal, 0)
    left = os.listdir(environment["TMPDIR"])
    assert [name for name in left if not name.endswith(".html")] == []
