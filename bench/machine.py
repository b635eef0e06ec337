"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tools.apache_kafka import VERSION

_HERE = Path(__file__).resolve().parent


def facts() -> dict[str, str]:
    return {
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
        "apache_kafka": VERSION,
        "load_before": f"{os.getloadavg()[0]:.1f}",
    }


def commit(repository: Path = _HERE.parent) -> str:
    """The newest one that changed more than results, with a plus sign where files differ from it.
    Commits of results are made between runs, and rewritten before they land: a page once named one
    that nobody could find."""
    measured = (".", *(f":!bench/{name}" for name in ("RESULTS.md", "results.json")))

    def git(*arguments: str) -> str:
        command = ["git", *arguments, "--", *measured]
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    newest = git("log", "-1", "--format=%h", "--abbrev=7")
    differs = git("status", "--porcelain", "--untracked-files=no")
    return f"{newest}{'+' if differs else ''}" if newest else "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java() -> str:
    if shutil.which("java") is None:
        return "none"
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[0].strip()
