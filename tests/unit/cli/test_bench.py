"""`ottla bench` hands over to the checkout's benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.main import main


def test_without_a_checkout_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.cli.bench._ROOT", tmp_path)

    assert main(["bench"]) == 1
    assert "./ottla bench" in capsys.readouterr().err


def test_arguments_and_exit_code_are_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.cli.bench._ROOT", tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "run.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(3)\n")

    assert main(["bench", "--only", "start", "--help"]) == 3
    assert capfd.readouterr().out == "['--only', 'start', '--help']\n"
