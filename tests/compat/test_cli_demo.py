"""`ottla demo --small`, whole. tests/pipeline has the one with Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path)}


@pytest.fixture
def demo(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ottla", "demo", "--small"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        process.kill()


def test_it_ends_by_itself_with_every_event_read_back(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "demo", "--small", "--seconds", "3"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert lines[-1].lstrip().startswith("2.")
    assert "events written" in last
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_broker_behind(
    tmp_path: Path, demo: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert demo.stdout is not None
    demo.stdout.readline()
    (broker,) = psutil.Process(demo.pid).children()
    demo.send_signal(number)
    out, err = demo.communicate(timeout=60)

    assert (demo.returncode, err) == (0, "")
    assert "read back" in out
    assert not broker.is_running()
    assert os.listdir(tmp_path) == []
