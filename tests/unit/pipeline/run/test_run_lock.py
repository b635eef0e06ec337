"""Who runs a job."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.pipeline.run.run_lock import AlreadyRunning, RunLock

HOLDER = """
import sys
from pathlib import Path
from ottla.pipeline.run.run_lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_one_is_told_who_has_it(tmp_path: Path) -> None:
    assert RunLock(tmp_path).holder() is None
    with RunLock(tmp_path), pytest.raises(AlreadyRunning) as error, RunLock(tmp_path):
        pass
    assert f"process {os.getpid()} runs this job in {tmp_path}" in str(error.value)
    assert RunLock(tmp_path).holder() is None
    with RunLock(tmp_path):
        assert RunLock(tmp_path).holder() == os.getpid()


def test_it_is_free_when_its_process_is_gone(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert RunLock(tmp_path).holder() == other.pid
        other.kill()
    assert RunLock(tmp_path).holder() is None
    with RunLock(tmp_path):
        pass


def test_who_only_looks_keeps_nobody_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`status` holds it for an instant, in which a run may begin."""
    with RunLock(tmp_path):
        pass
    with (tmp_path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
        with RunLock(tmp_path):
            assert RunLock(tmp_path).holder() == os.getpid()
