"""A broker as a user runs it: `ottla start` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_SRC = Path(__file__).resolve().parents[2] / "src"

_READY = re.compile(r"ready: broker (?P<broker_id>\d+) on (?P<bootstrap>\S+:(?P<port>\d+))\b")
_START_TIMEOUT_S = 30
_STOP_TIMEOUT_S = 30


class OttlaProcess:
    """Lives in `folder`: `data/`, and `broker.log` with what it printed over all its starts.
    Whoever made it stops it; a test that uses the fixtures of tests/conftest.py need not."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        """`prefix`: of the command, where it runs elsewhere, in a network namespace say."""
        self.folder = folder
        self.data_dirs = [folder / "data"]
        self.log_path = folder / "broker.log"
        self.settings = dict(settings or {})
        self.args = list(args)
        self._host = host
        self._prefix = list(prefix)
        self.bootstrap = ""
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """The only one, unless a test has given it more."""
        return self.data_dirs[0]

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def memory_bytes(self) -> int:
        """What it has written to. Not the code that it runs: pages of libraries are its own while
        no other process has them too, so a broker "grew" by 1.3 MB whenever another one ended."""
        if not Path("/proc").exists():
            return int(psutil.Process(self.pid).memory_full_info().uss)
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        found = re.findall(r"^(?:Anonymous|Swap): +(\d+) kB$", rollup, re.MULTILINE)
        return sum(int(size_kb) << 10 for size_kb in found)

    def start(self) -> None:
        """Returns when it serves. The port that the system gave it at its first start stays its
        port."""
        assert self._process is None, "already started"
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [*self._prefix, sys.executable, "-m", "ottla", "start"]
        command += ["--data-dir", ",".join(map(str, self.data_dirs))]
        command += ["--listen", f"{self._host}:{self.port}", *self.args]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        with open(self.log_path, "ab") as log:
            log_position = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(_SRC)},
                # Ctrl-C in the terminal is for pytest, which then stops the brokers in order.
                start_new_session=True,
            )
        try:
            self._wait_until_ready(log_position)
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self, log_position: int) -> None:
        process = self._running()
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            ended = process.poll() is not None
            if (ready := _READY.search(self.log_text()[log_position:])) is not None:
                self.bootstrap = ready["bootstrap"]
                self.port = int(ready["port"])
                return
            if ended:
                raise RuntimeError(f"ended with {process.returncode}:\n{self.log_text()}")
            time.sleep(0.01)
        raise TimeoutError(f"not ready after {_START_TIMEOUT_S} s:\n{self.log_text()}")

    def stop(self) -> None:
        """Cleanly: it must end by itself, and with 0."""
        exit_code = self._end(signal.SIGTERM)
        assert exit_code == 0, f"SIGTERM ended it with {exit_code}:\n{self.log_text()}"

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> int:
        process = self._running()
        process.send_signal(number)
        try:
            exit_code = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            self._process = None
        return exit_code

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process
