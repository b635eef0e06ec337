"""Several brokers as a user runs them: `ottla start --brokers N` in a process of its own."""

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
_READY = re.compile(r"ready: \d+ brokers on (?P<bootstrap>\S+), data in ")
_STOP_TIMEOUT_S = 60


class OttlaCluster:
    """Its data are in `folder`, over all its starts. Whoever made it ends it."""

    def __init__(self, folder: Path, count: int = 3, *, args: Sequence[str] = ()) -> None:
        self.folder = folder
        self.bootstrap = ""
        self._command = [sys.executable, "-m", "ottla", "start", "--brokers", str(count)]
        self._command += ["--data-dir", str(folder), *args]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns when all of them serve, on ports that the system picked."""
        assert self._process is None, "already started"
        self._process = subprocess.Popen(
            [*self._command, "--listen", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_SRC)},
            start_new_session=True,
        )
        self.bootstrap = self.line(_READY)["bootstrap"]

    def line(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """Waits for a line of the supervisor's."""
        process = self._running()
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if (found := re.search(pattern, line)) is not None:
                return found
        raise AssertionError(f"it never said {pattern!r}:\n{seen}\n{self.logs()}")

    def logs(self) -> str:
        paths = sorted(self.folder.glob("broker-*.log"))
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')}" for path in paths)

    def brokers(self) -> dict[int, psutil.Process]:
        """Those that run. One that was just killed is a child still, and has no arguments."""
        found = {}
        for child in psutil.Process(self._running().pid).children():
            try:
                args = child.cmdline()
            except psutil.NoSuchProcess:  # also of a zombie
                continue
            if "--broker-id" in args:
                found[int(args[args.index("--broker-id") + 1])] = child
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Cleanly: it must end by itself, with 0, and leave nobody behind."""
        brokers = self.brokers().values()
        exit_code = self._end(number)
        assert exit_code == 0, f"{number.name} ended it with {exit_code}:\n{self.logs()}"
        assert not [broker for broker in brokers if broker.is_running()]

    def kill(self) -> None:
        """The supervisor alone; its brokers end by themselves."""
        if self._process is None:
            return
        brokers = list(self.brokers().values())
        self._end(signal.SIGKILL)
        _, left = psutil.wait_procs(brokers, timeout=_STOP_TIMEOUT_S)
        for broker in left:
            broker.kill()
        assert left == [], f"outlived their supervisor:\n{self.logs()}"

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._running(), None
        process.send_signal(number)
        try:
            return process.wait(_STOP_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "not started"
        return self._process
