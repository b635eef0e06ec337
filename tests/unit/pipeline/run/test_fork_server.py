"""The server and its client as processes, with modules of our own in place of Spark's."""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ottla.pipeline.run import fork_server
from ottla.pipeline.run.fork_client import ADDRESS
from ottla.pipeline.run.fork_server import forking_python, launcher_text, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")

SRC = Path(__file__).resolve().parents[4] / "src"
IMPORTED = """
import os, threading
PID = os.getpid()
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
TELLING = """
import json, os, sys, threading
import a_large_module
print(json.dumps({
    "argv": sys.argv, "name": __name__, "variable": os.environ.get("VARIABLE"), "cwd": os.getcwd(),
    "imported_by": a_large_module.PID, "pid": os.getpid(), "parent": os.getppid(),
}), flush=True)
said = sys.stdin.read()
print("bad", file=sys.stderr)
sys.exit(int(said))
"""


class Forks:
    """A server that has imported `a_large_module`, and what its clients are run with."""

    def __init__(self, folder: Path) -> None:
        (folder / "a_large_module.py").write_text(IMPORTED)
        (folder / "telling.py").write_text(TELLING)
        path = os.pathsep.join([str(SRC), str(folder)])
        self.environment = {**os.environ, "PYTHONPATH": path}
        self.address, self.server = start(self.environment, ["a_large_module"])
        self.launcher = folder / "python"
        self.launcher.write_text(launcher_text())
        self.launcher.chmod(0o700)

    def client(self, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.launcher, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**self.environment, ADDRESS: self.address, "VARIABLE": "said"},
        )

    def end(self) -> None:
        self.server.communicate(timeout=30)


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    forks = Forks(tmp_path)
    yield forks
    forks.end()


def told(client: subprocess.Popen[str]) -> dict[str, object]:
    assert client.stdout is not None
    found: dict[str, object] = json.loads(client.stdout.readline())
    return found


def test_a_module_runs_as_if_python_had_been_started(
    capfd: pytest.CaptureFixture[str], forks: Forks, tmp_path: Path
) -> None:
    client = forks.client("-m", "telling", "one", "two words", cwd=tmp_path)
    found = told(client)
    assert found["name"] == "__main__"
    assert found["argv"] == [str(tmp_path / "telling.py"), "one", "two words"]
    assert (found["variable"], found["cwd"]) == ("said", str(tmp_path))
    # Another process, which has not imported it itself.
    assert found["imported_by"] == found["parent"] == forks.server.pid != found["pid"]
    assert client.communicate("3", timeout=30) == ("", "bad\n")
    assert client.returncode == 3
    # Python warns of a fork beside threads, which those of allocators are not meant by.
    assert capfd.readouterr().err == ""


def test_what_it_raises_is_seen(forks: Forks) -> None:
    client = forks.client("-m", "telling")
    told(client)
    assert "invalid literal for int()" in client.communicate("x", timeout=30)[1]
    assert client.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_is_ended_takes_its_process_along(
    forks: Forks, number: signal.Signals
) -> None:
    client, other = forks.client("-m", "telling"), forks.client("-m", "telling")
    process = psutil.Process(int(str(told(client)["pid"])))
    told(other)
    client.send_signal(number)
    client.communicate(timeout=30)
    process.wait(timeout=30)
    assert client.returncode == (143 if number == signal.SIGTERM else -signal.SIGKILL)
    other.communicate("0", timeout=30)
    assert other.returncode == 0


def test_ctrl_c_is_for_the_driver(forks: Forks) -> None:
    forks.server.send_signal(signal.SIGINT)
    client = forks.client("-m", "telling")
    pid = int(str(told(client)["pid"]))
    for process in (pid, forks.server.pid):
        os.kill(process, signal.SIGINT)
    assert client.communicate("0", timeout=30) == ("", "bad\n")
    assert client.returncode == 0


def test_other_arguments_are_for_python_itself(forks: Forks) -> None:
    client = forks.client("-c", "import os; print(os.getppid())")
    assert client.communicate(timeout=30)[0] == f"{os.getpid()}\n"


def test_without_a_server_it_is_a_python_like_any_other(tmp_path: Path) -> None:
    forks = Forks(tmp_path)
    forks.end()
    client = forks.client("-m", "telling")
    found = told(client)
    assert found["imported_by"] == found["pid"] == client.pid
    client.communicate("0", timeout=30)


def test_who_says_nonsense_is_not_heard(forks: Forks) -> None:
    for said in (b"", b"\0\0\0\1", b"\0\0\0\1x"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect("\0" + forks.address)
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
    client = forks.client("-m", "telling")
    told(client)
    client.communicate("0", timeout=30)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[fork_server._Server]:
    """In this process."""
    read, write = os.pipe()
    with open(read) as stdin, open(write, "w"), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0ottla-test-{os.getpid()}")
        listener.listen()
        monkeypatch.setattr(sys, "stdin", stdin)
        server = fork_server._Server(listener)
        with server._selector, server._woken, server._wake:
            yield server


@pytest.mark.parametrize("said", [b"", b"\0\0\0\7half"])
def test_who_stops_in_the_middle_does_not_hold_it_up(
    server: fork_server._Server, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(fork_server, "_REQUEST_TIMEOUT", struct.pack("ll", 0, 1_000))
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(server._listener.getsockname())
        stranger.sendall(said)
        assert server._accept() is None
        assert stranger.recv(1) == b""


def test_a_process_and_its_client_may_end_at_once(
    server: fork_server._Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, client = socket.socketpair()
    client.close()
    server._clients[4711] = ours
    server._selector.register(ours, selectors.EVENT_READ)
    server._wake.send(b"\0")
    ended = iter([(4711, 0), (0, 0)])
    monkeypatch.setattr(os, "waitpid", lambda *_: next(ended))
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    server._reap()
    server._lost(4711)
    # It may be another process by now.
    assert killed == []


def test_there_is_none_for_a_spark_that_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert forking_python({"SPARK_HOME": "/opt/spark"}) is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert forking_python({}) is None


def test_there_is_one_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    addresses = iter(["first", "second"])
    monkeypatch.setattr(fork_server, "_address", None)
    monkeypatch.setattr(fork_server, "start", lambda *_: (next(addresses), None))
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    found = forking_python({})
    assert found is not None
    assert found == forking_python({})
    assert found[ADDRESS] == "first"
    assert Path(found["PYSPARK_PYTHON"]).read_text() == launcher_text()
    assert found["PYSPARK_DRIVER_PYTHON"] == found["PYSPARK_PYTHON"]
