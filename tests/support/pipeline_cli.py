"""`ottla pipeline` in a process of its own, as a user runs it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

_SRC = Path(__file__).resolve().parents[2] / "src"


_CODES = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]")
_REDRAWN = re.compile(r"(?:\r|\x1b\[2K|\x1b\[\d*A)+")


class PipelineCli:
    """Runs `ottla` against one broker, with its outputs in one folder. The job is `logs`, where
    none is named."""

    def __init__(self, bootstrap: str, folder: Path, *packages: Path) -> None:
        """`packages` go before those that are installed."""
        self.folder = folder
        self.said = folder / "stderr"
        path = os.pathsep.join([*map(str, packages), str(_SRC), os.environ.get("PYTHONPATH", "")])
        self._env = {**os.environ, "OTTLA_BOOTSTRAP": bootstrap, "PYTHONPATH": path}
        self._of_the_job = ["--folder", str(folder / "job"), "--lake", str(folder / "lake")]

    def run(self, *args: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *args],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done

    def run_on_terminal(self, *args: str) -> tuple[int, list[str]]:
        """The exit code, and what a terminal of 80 columns showed: each picture that was drawn over
        the one before it."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        with subprocess.Popen(
            [sys.executable, "-m", "ottla", *args],
            env={**self._env, "TERM": "xterm"},
            stdin=its,
            stdout=its,
            stderr=its,
        ) as process:
            os.close(its)
            shown = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        text = shown.decode().replace("\r\n", "\n")
        return process.returncode, [_CODES.sub("", one) for one in _REDRAWN.split(text)]

    def spark_version(self) -> str:
        code = "import pyspark; print(pyspark.__version__)"
        return subprocess.check_output([sys.executable, "-c", code], env=self._env, text=True)

    def job_args(self, command: str, topic: str, *, master: str = "local[2]") -> list[str]:
        settings = ["--set", f"output_prefix={topic}-", "--set", f"group_prefix={topic}-"]
        return [
            *("pipeline", command, "logs", "--topics", topic, "--master", master, "--json"),
            *(*self._of_the_job, *settings),
        ]

    def status(self) -> dict[str, Any]:
        folder = str(self.folder / "job")
        done = self.run("pipeline", "status", "logs", "--folder", folder, "--json")
        return {query["query"]: query for query in json.loads(done.stdout)}

    @contextmanager
    def running(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """What it says goes to a file: nobody reads it while it runs."""
        with (
            self.said.open("w") as said,
            subprocess.Popen(
                [sys.executable, "-m", "ottla", *args],
                env=self._env,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def rows(self, table: str) -> int:
        return int(DeltaTable(self.folder / "lake" / table).to_pyarrow_table().num_rows)


def _read(terminal: int) -> bytes:
    """Nothing at the end, which Linux tells by an error."""
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""
