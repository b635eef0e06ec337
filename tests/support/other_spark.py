"""Another Spark than the one that is installed: the oldest that `ottla[pipeline]` takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.environment import install_command

_CACHE = Path(__file__).resolve().parents[2] / ".cache"


def pyspark(version: str) -> Path:
    """A folder for PYTHONPATH. Fetched once."""
    folder = _CACHE / f"pyspark-{version}"
    if not folder.exists():
        making = _CACHE / f"{folder.name}.making"
        shutil.rmtree(making, ignore_errors=True)
        # What else it needs is that of the one that is installed.
        options = ["--no-deps", "--target", str(making)]
        install = install_command(sys.executable)
        subprocess.run([*install, *options, f"pyspark=={version}"], check=True)
        making.rename(folder)
    return folder
