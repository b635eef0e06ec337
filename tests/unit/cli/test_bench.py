"""`ottla bench` hands over to the checkout's benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.main import main


def test_without_a_checkout_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.cli.bench._ROOT", tmp_path)

    assert main(["bench"]) == 1
    assert "./ottla bench" in capsys.readouterr().err


def test_arguments_and_exit_code_are_handed_on(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "run.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(3)\n")
    code = (
        "import sys; from pathlib import Path; from ottla.cli import bench, main; "
        "bench._ROOT = Path(sys.argv[1]); main.main(['bench', *sys.argv[2:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "--only", "start", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "['--only', 'start', '--help']\n")
