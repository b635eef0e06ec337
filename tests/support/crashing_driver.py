"""Drivers of Spark that die at a named point: see crash_points/sitecustomize.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_CRASH_POINTS = Path(__file__).resolve().parent / "crash_points"
_TIMEOUT_S = 240


def run_driver(script: Path, *args: str, crash_point: str | None = None) -> None:
    """To its end, which must be a crash where a point is named, and a success where none is."""
    paths = [_ROOT / "src", _ROOT, *([_CRASH_POINTS] if crash_point else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    if crash_point is not None:
        environment["OTTLA_CRASH_POINT"] = crash_point
    # A file and no pipe: processes that outlive the driver for a while would hold a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [sys.executable, str(script), *args],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            timeout=_TIMEOUT_S,
        )
        output.seek(0)
        said = output.read()
    expected = 0 if crash_point is None else -signal.SIGKILL
    assert done.returncode == expected, f"it ended with {done.returncode}:\n{said[-5000:]}"
