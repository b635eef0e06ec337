"""A broker as a child process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from ottla.cli import child_broker
from ottla.cli.child_broker import ChildBroker
from ottla.cli.errors import Failure


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_serves_and_leaves_nothing_behind(temporary_folder: Path) -> None:
    with ChildBroker() as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))):
            assert broker.exit_code() is None
        assert os.listdir(temporary_folder)

    assert broker.exit_code() == -signal.SIGKILL
    assert os.listdir(temporary_folder) == []


def test_another_thread_may_end_it(temporary_folder: Path) -> None:
    """As one does that hears of a second Ctrl-C."""
    broker = ChildBroker()
    broker.end()
    assert os.listdir(temporary_folder) == []

    with ChildBroker() as broker:
        thread = Thread(target=broker.end)
        thread.start()
        thread.join()
        assert broker.exit_code() == -signal.SIGKILL
        assert os.listdir(temporary_folder) == []


def test_it_ends_with_a_parent_that_was_killed(temporary_folder: Path) -> None:
    code = """
import sys
from ottla.cli.child_broker import ChildBroker
with ChildBroker() as broker:
    print(broker.pid, flush=True)
    sys.stdin.read()
"""
    environment = {**os.environ, "TMPDIR": str(temporary_folder)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    try:
        until_s = time.monotonic() + 30
        while is_running(pid) and time.monotonic() < until_s:
            time.sleep(0.02)
        assert not is_running(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whoever inherits it may take its time to wait for it: what is a zombie has ended."""
    answer = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()[:1] not in ("", "Z")


def test_it_takes_another_port_where_the_usual_one_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(child_broker, "DEFAULT_PORT", other.getsockname()[1])
        with ChildBroker() as broker:
            assert broker.port not in (0, other.getsockname()[1])
    # Now nobody is there.
    with ChildBroker() as broker:
        assert broker.port == child_broker.DEFAULT_PORT
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
    with ChildBroker(is_on_usual_port=False) as broker:
        assert broker.port not in (0, child_broker.DEFAULT_PORT)


def test_a_port_that_is_bound_but_does_not_answer_is_not_insisted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        monkeypatch.setattr(child_broker, "DEFAULT_PORT", other.getsockname()[1])
        with ChildBroker() as broker:
            assert broker.port not in (0, other.getsockname()[1])


def test_a_broker_that_does_not_start_says_why(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = temporary_folder / "broken"
    program.write_text("#!/bin/sh\necho 'ottla: the disk is full' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    with pytest.raises(Failure, match=r"^the disk is full$"), ChildBroker():
        pass

    assert os.listdir(temporary_folder) == ["broken"]
