"""A broker as a child process, with a data dir that goes with it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from types import TracebackType

from ottla.cli.demo_folder import DemoFolder
from ottla.cli.errors import Failure

_READY = re.compile(r"ready: broker (\d+) on (\S+), data in ")
_END_TIMEOUT_S = 10.0
_REMOVE_TIMEOUT_S = 0.3
DEFAULT_PORT = 9092


def _is_taken(port: int) -> bool:
    """Whether anybody answers there, on any of the addresses that localhost has."""
    try:
        socket.create_connection(("localhost", port), timeout=0.5).close()
    except OSError:
        return False
    return True


class ChildBroker:
    """Runs from `with` to its end; then it is killed and its data removed: to stop in order would
    only be for those data. It is in a session of its own, so that Ctrl-C reaches its parent only.
    It also ends when its parent was killed; its data stay until the next one starts."""

    def __init__(self, *, is_on_usual_port: bool = True) -> None:
        """On the usual port if that is free, and else, or where nobody should find it, on any."""
        self._is_on_usual_port = is_on_usual_port
        self.bootstrap = ""
        self.port = 0
        self.start_s = 0.0
        self._folder = DemoFolder("broker")
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ChildBroker:
        try:
            if self._is_on_usual_port and not _is_taken(DEFAULT_PORT):
                try:
                    return self._start(DEFAULT_PORT)
                except Failure:
                    pass  # somebody was quicker, or may not use it: any other port will do
            return self._start(0)
        except BaseException:
            self.end()
            raise

    def _start(self, port: int) -> ChildBroker:
        command = [sys.executable, "-P", "-m", "ottla.cli.tied_broker", "start"]
        command += ["--data-dir", os.path.join(self._folder.path, "data")]
        command += ["--listen", f"127.0.0.1:{port}"]
        began_s = time.monotonic()
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None, "a pipe was asked for"
        ready = _READY.search(self._process.stdout.readline())
        if ready is None:
            self._process.wait(_END_TIMEOUT_S)
            self._close_pipes()
            raise Failure(self.log_text().strip().removeprefix("ottla: ") or "it said nothing")
        self.bootstrap = ready[2]
        self.port = int(self.bootstrap.rpartition(":")[2])
        self.start_s = time.monotonic() - began_s
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    def end(self) -> None:
        """At once, on any thread, started or not."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._close_pipes()
        self._folder.remove(_REMOVE_TIMEOUT_S)

    def memory_bytes(self) -> int | None:
        """What is resident; None where the system has no /proc to tell."""
        if self._process is None:
            return None
        try:
            with open(f"/proc/{self._process.pid}/statm") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return None

    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def log_text(self) -> str:
        with open(self._log_path, errors="replace") as log:
            return log.read()

    @property
    def _log_path(self) -> str:
        return os.path.join(self._folder.path, "broker.log")

    def _close_pipes(self) -> None:
        assert self._process is not None, "it was started"
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
