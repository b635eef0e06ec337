from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.run.helper_process import end_helper, start_helper

SRC = Path(__file__).resolve().parents[4] / "src"
MODULE = """
import sys
from ottla.pipeline.run.helper_process import leave_signals
leave_signals()
open(sys.argv[1], "w").write("ready")
sys.stdin.read()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "a_module.py").write_text(MODULE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), str(tmp_path)])}


def test_it_ends_when_it_shall_and_not_by_ctrl_c(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    ready = tmp_path / "ready"
    process = start_helper("a_module", [str(ready)], environment=environment)
    process.send_signal(signal.SIGINT)  # while it starts
    while not ready.exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    end_helper(process)
    assert process.returncode == 0


def test_it_ends_with_the_driver_however_that_ends(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    ready = tmp_path / "ready"
    driver = (
        "import os, pathlib, signal; from ottla.pipeline.run.helper_process import start_helper\n"
        f"process = start_helper('a_module', [{str(ready)!r}])\n"
        f"while not pathlib.Path({str(ready)!r}).exists(): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # This reads until the process beside it has ended as well: it has the same stderr.
    killed = subprocess.run(
        [sys.executable, "-c", driver],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (killed.returncode, killed.stdout, killed.stderr) == (-signal.SIGKILL, "", "")
