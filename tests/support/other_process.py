"""Runs Python elsewhere, to see that nothing depends on the process."""

from __future__ import annotations

import os
import subprocess
import sys


def printed_elsewhere(code: str, *, hash_seed: str) -> str:
    """What the code prints in a process of its own, in which sets and dicts are hashed by this
    seed."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
