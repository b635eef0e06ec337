"""What is checked before Spark is started. Running is in tests/pipeline/test_cli_pipeline.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.errors import ExitCode
from ottla.cli.main import main
from ottla.pipeline.run_lock import RunLock


def said(capsys: pytest.CaptureFixture[str], exit_code: ExitCode, *args: str) -> str:
    assert main(["pipeline", *args]) == exit_code
    return capsys.readouterr().err


def test_a_second_run_in_one_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunLock(tmp_path):
        for command in (["run", "logs"], ["replay", "logs", "--from", "0", "--yes"]):
            text = said(capsys, ExitCode.FAILED, *command, "--folder", str(tmp_path))
            assert f"runs this job in {tmp_path} already; stop it, or take another folder" in text


def test_what_a_job_misses_is_said_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["--topics", "a", "--folder", str(tmp_path)]
    text = said(capsys, ExitCode.USAGE, "run", "mirror", *args)
    assert text.startswith("ottla: option target: is missing")


def test_a_mirror_is_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--set", "target=other:9092", "--topics", "a", "--folder", str(tmp_path)]
    text = said(capsys, ExitCode.FAILED, "replay", "mirror", "--from", "0", *args)
    assert "mirror cannot be replayed: where it goes on is in what it writes" in text


def test_a_replay_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints" / "lines").mkdir(parents=True)
    monkeypatch.setattr("sys.stdin.readline", lambda *_: "n\n", raising=False)
    args = ["replay", "logs", "--from", "2026-01-31T00:00:00Z", "--folder", str(tmp_path)]
    text = said(capsys, ExitCode.INTERRUPTED, *args, "--lake", "/the/lake")
    assert "from 2026-01-31T00:00:00.000Z on, out of topic logs" in text
    assert "replaced in /the/lake: dead_letters, logs, logs_error_rates" in text
    assert "written to again: logs-error-rates" in text
    assert (tmp_path / "checkpoints" / "lines").exists()


def test_a_time_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "neither milliseconds nor ISO 8601" in said(
        capsys, ExitCode.USAGE, "replay", "logs", "--from", "soon"
    )
