"""Drivers of Spark that die at a named point: see crash_points/sitecustomize.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ottla.pipeline.sink.checkpoint import Checkpoint

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


def tear(folder: Path) -> None:
    """What a crash in the middle of writing the next file of each log leaves: half of it, under
    the name that files have until they are whole."""
    checkpoint = Checkpoint(str(folder))
    planned = checkpoint.last_planned()
    assert planned is not None
    whole = (folder / "offsets" / str(planned)).read_bytes()
    for name, batch_id in (("offsets", planned + 1), ("commits", planned)):
        torn = folder / name / f".{batch_id}.2f1f6f6e-2f5e-4b0c-9f4e-6a3c1d2e4b5a.tmp"
        torn.write_bytes(whole[: len(whole) // 2])
