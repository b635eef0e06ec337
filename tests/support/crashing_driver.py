"""Drivers of Spark that die: at a named point (see crash_points/sitecustomize.py), or in the middle
of a write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

_ROOT = Path(__file__).resolve().parents[2]
_CRASH_POINTS = Path(__file__).resolve().parent / "crash_points"
_TIMEOUT_S = 240

CRASHES = (
    # The transaction has ended, and Spark does not know: it runs the batch again.
    "after ottla.pipeline.sink.transaction:Transaction.commit",
    # All is written, and the offsets are, but the transaction has not ended.
    "before ottla.pipeline.sink.transaction:Transaction.commit",
    # A task has written, and the driver has not heard of it.
    "after ottla.pipeline.sink.row_writer:write_rows",
    # The batch is planned in the checkpoint, and not begun.
    "before ottla.pipeline.source.source:StreamReader.partitions",
)
"""Where a micro-batch that is written in a transaction could come apart."""


def run_driver(script: Path, *args: str, crash_point: str | None = None) -> None:
    """To its end, which must be a crash where a point is named, and a success where none is."""
    with _started(script, *args, crash_point=crash_point) as driver:
        ended = driver.wait(_TIMEOUT_S)
        expected = 0 if crash_point is None else -signal.SIGKILL
        assert ended == expected, f"it ended with {ended}:\n{driver.said}"


def run_driver_until_it_writes(script: Path, *args: str, log: Path) -> None:
    """Kills it while it writes a file of this log of its checkpoint: `offsets` or `commits`. Files
    have another name there until they are whole, and one of that kind is what remains."""
    before = _unfinished(log)
    with _started(script, *args) as driver:
        jvm: psutil.Process | None = None
        deadline_s = time.monotonic() + _TIMEOUT_S
        while driver.poll() is None:
            assert time.monotonic() < deadline_s, f"it writes nothing:\n{driver.said}"
            if jvm is None:
                jvm = driver.jvm()
                time.sleep(0.01)
            elif _unfinished(log) - before:
                jvm.suspend()
                time.sleep(0.01)  # Until each of its threads stands still.
                if _unfinished(log) - before:
                    jvm.kill()
                    break
                jvm.resume()  # The file was whole by then: it is caught at another one.
        assert _unfinished(log) - before, f"it was not killed in a write:\n{driver.said}"


# -- inside ----------------------------------------------------------------------------------------


class _Driver(subprocess.Popen[str]):
    said_to: IO[str]

    @property
    def said(self) -> str:
        self.said_to.seek(0)
        return self.said_to.read()[-5000:]

    def jvm(self) -> psutil.Process | None:
        """Spark's own; None before it has begun. Others are asked for their version before."""
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children():
                if child.name() == "java" and "SparkSubmit" in " ".join(child.cmdline()):
                    return child
        return None


@contextmanager
def _started(script: Path, *args: str, crash_point: str | None = None) -> Iterator[_Driver]:
    paths = [_ROOT / "src", _ROOT, *([_CRASH_POINTS] if crash_point else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    if crash_point is not None:
        environment["OTTLA_CRASH_POINT"] = crash_point
    # A file and no pipe: processes that outlive the driver for a while would hold a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, str(script), *args]
        with _Driver(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        ) as driver:
            driver.said_to = output
            try:
                yield driver
            finally:
                driver.kill()


def _unfinished(log: Path) -> set[str]:
    if not log.is_dir():
        return set()
    return {name for name in os.listdir(log) if name.startswith(".") and name.endswith(".tmp")}
