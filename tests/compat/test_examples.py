"""Every program in examples/ runs as its first lines say, and again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.counts import count
from tests.support.ottla_process import OttlaProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMEOUT_S = 60


def run(name: str, broker: OttlaProcess, folder: Path, timeout_s: float = TIMEOUT_S) -> str:
    # Should it hang, it says where: what it has printed, and the stack of each thread.
    seen_when_it_hangs = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **seen_when_it_hangs, "BOOTSTRAP": broker.bootstrap},
    ) as example:
        try:
            out, err = example.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            example.send_signal(signal.SIGABRT)
            out, err = example.communicate()
            pytest.fail(f"{name} hangs after {timeout_s} s:\n{out}{err}{broker.log_text()}")
    assert example.returncode == 0, out + err
    return out


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_says_how_to_run_it_and_is_tested(path: Path) -> None:
    assert f".venv/bin/python examples/{path.name}" in path.read_text()
    assert f'"{path.stem}"' in Path(__file__).read_text()


def test_at_least_once(broker: OttlaProcess, tmp_path: Path) -> None:
    for _ in range(2):
        lines = run("at_least_once", broker, tmp_path).splitlines()
        assert sorted(lines[:-1]) == [f"order {number} is done" for number in range(10)]
        assert lines[-1] == "10 orders, each done at least once"


def test_at_most_once(broker: OttlaProcess, tmp_path: Path) -> None:
    for _ in range(2):
        lines = run("at_most_once", broker, tmp_path).splitlines()
        assert sorted(lines[:-1]) == [f"sent: notice {number}" for number in range(10)]
        assert lines[-1] == "10 notices, none of them sent twice"


def test_manual_assignment(broker: OttlaProcess, tmp_path: Path) -> None:
    for times in (1, 2):
        assert f"the sum is {45 * times}," in run("manual_assignment", broker, tmp_path)
        state = json.loads((tmp_path / "manual-assignment.json").read_text())
        assert state["next"] == {"0": 5 * times, "2": 5 * times}


def test_rebalance_callbacks(broker: OttlaProcess, tmp_path: Path) -> None:
    for _ in range(2):
        lines = run("rebalance_callbacks", broker, tmp_path).splitlines()
        assert lines[0] == "first gets [0, 1, 2, 3]"
        given_up = next(line for line in lines if line.startswith("first gives up "))
        moved = given_up.removeprefix("first gives up ")
        assert f"second gets {moved}" in lines, "what one gives up the other gets"
        assert sorted(line for line in lines if line.startswith("first counted")) == [
            f"first counted 5 in {number}" for number in range(4)
        ]
        assert lines.index(given_up) < lines.index(f"second gets {moved}")
        assert sum(line.startswith("second counted 0 in") for line in lines) == 4


def test_exactly_once(broker: OttlaProcess, tmp_path: Path) -> None:
    for _ in range(2):
        output = run("exactly_once", broker, tmp_path)
        assert output == "10 payments, each with exactly one receipt\n"


@pytest.mark.timeout(300)
def test_exactly_once_trial(
    broker: OttlaProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = count(full=50, quick=5)
    monkeypatch.setenv("KILLS", str(kills))
    last, verdict = run("exactly_once_trial", broker, tmp_path, timeout_s=280).splitlines()[-2:]
    assert re.fullmatch(rf"(\d+) payments, \1 receipts after {kills} kills", last)
    assert verdict == "0 missing, 0 more than once"
