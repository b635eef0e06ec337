"""A ZooKeeper as a user runs it: `ottla zookeeper` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

_SRC = Path(__file__).resolve().parents[2] / "src"
_READY = re.compile(r"ready: ZooKeeper \S+ on (\S+:(\d+)), data in ")
_STOP_TIMEOUT_S = 30


class ZooKeeperProcess:
    """Its data is in `folder`, over all its starts, and its port stays the same. Whoever made it
    stops it."""

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        """`prefix`: of the command, where it runs elsewhere, in a network namespace say."""
        self._folder = folder
        self._host = host
        self._prefix = list(prefix)
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def start(self) -> None:
        """Returns when it serves."""
        assert self._process is None, "already started"
        command = [*self._prefix, sys.executable, "-m", "ottla", "zookeeper"]
        command += ["--data-dir", str(self._folder)]
        command += ["--listen", f"{self._host}:{self._port}"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_SRC)},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        ready = _READY.search(line)
        if ready is None:
            self.kill()
            raise RuntimeError(f"ZooKeeper said: {line}")
        self.address, self._port = ready[1], int(ready[2])

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def signal_java(self, number: signal.Signals) -> None:
        """SIGSTOP: it hangs, with its connections open. SIGCONT: it goes on."""
        (java,) = self._javas()
        java.send_signal(number)

    def stop(self) -> None:
        """Cleanly: it must end by itself, and with 0."""
        exit_code = self._end(signal.SIGTERM)
        assert exit_code == 0, f"SIGTERM ended it with {exit_code}"

    def kill(self) -> None:
        """Java too: it ends when its parent is gone."""
        javas = self._javas()
        self._end(signal.SIGKILL)
        _, left = psutil.wait_procs(javas, timeout=_STOP_TIMEOUT_S)
        assert left == [], "Java has outlived its parent"

    def _javas(self) -> list[psutil.Process]:
        assert self._process is not None, "not started"
        return [
            child
            for child in psutil.Process(self._process.pid).children()
            if child.name() == "java"
        ]

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None, "not started"
        process.send_signal(number)
        try:
            return process.wait(_STOP_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
            self._process = None
