"""What tests/conftest.py promises about skips."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def run_skipping_test(folder: Path, *, ci: str) -> subprocess.CompletedProcess[str]:
    test = folder / "test_it.py"
    test.write_text(
        "from tests.support.need import need_command\n"
        "def test_it():\n"
        "    need_command('no-such-command', 'Such a thing')\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", str(test)]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider"]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "CI": ci}, capture_output=True, text=True, check=False
    )


def test_a_missing_tool_skips_and_says_why(tmp_path: Path) -> None:
    done = run_skipping_test(tmp_path, ci="")
    assert "1 skipped" in done.stdout
    assert "Such a thing is not installed" in done.stdout
    assert done.returncode == 0


def test_a_missing_tool_fails_on_ci_and_says_why(tmp_path: Path) -> None:
    done = run_skipping_test(tmp_path, ci="true")
    assert "1 failed" in done.stdout
    assert "Such a thing is not installed" in done.stdout
    assert done.returncode == 1
