"""`ottla demo --small`, whole. tests/pipeline has the one with Spark."""

from __future__ import annotations

import os
import re
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


def test_it_ends_by_itself_with_every_record_read_back(
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
    assert lines[1].startswith("charts, live: http://127.0.0.1:")
    assert lines[-1].lstrip().startswith("2.")
    (page,) = tmp_path.iterdir()
    written, read_back = (int(text.replace(",", "")) for text in re.findall(r"[\d,]{3,}", last)[:2])
    assert written == read_back > 0
    assert last.endswith(f"page: {page}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_broker_behind(
    tmp_path: Path, demo: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert demo.stdout is not None
    while "records written" not in demo.stdout.readline():
        pass
    (broker,) = psutil.Process(demo.pid).children()
    demo.send_signal(number)
    out, err = demo.communicate(timeout=60)

    assert (demo.returncode, err) == (0, "")
    assert "read back" in out
    assert not broker.is_running()
    assert [path.suffix for path in tmp_path.iterdir()] == [".html"]
