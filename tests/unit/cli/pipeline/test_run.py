"""What is checked before Spark is started. Running is in tests/pipeline/test_cli_pipeline.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.errors import ExitCode
from ottla.cli.main import main
from ottla.pipeline.jobs.job import Job, Settings
from ottla.pipeline.run import runner, session
from ottla.pipeline.run.progress import BatchProgress, QueryProgress
from ottla.pipeline.run.replay import replay_of
from ottla.pipeline.run.run_lock import RunLock
from ottla.pipeline.run.stages import Stage


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


def test_an_option_of_the_source_is_checked_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["--set", "source.minPartition=8", "--folder", str(tmp_path)]
    text = said(capsys, ExitCode.USAGE, "run", "logs", *args)
    assert text.startswith("ottla: option minPartition: is not known; did you mean minPartitions?")
    args = ["--set", "source.assign={}", "--folder", str(tmp_path), "--bootstrap", "127.0.0.1:1"]
    assert "no broker answers" not in said(capsys, ExitCode.USAGE, "run", "logs", *args)


def test_a_mirror_is_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets: list[list[str]] = [["--set", "target=other:9092", "--topics", "a"], []]
    for target in targets:
        args = ["replay", "mirror", "--from", "0", "--folder", str(tmp_path), *target]
        text = said(capsys, ExitCode.FAILED, *args)
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
    assert "nothing was changed; --yes replays without asking" in text
    assert (tmp_path / "checkpoints" / "lines").exists()


def test_a_time_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "neither milliseconds nor ISO 8601" in said(
        capsys, ExitCode.USAGE, "replay", "logs", "--from", "soon"
    )


class FakeSpark:
    """Stands for a session. Says whether it was stopped."""

    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class FakeRun:
    """Stands for a JobRun: one batch, and then what `ending` does."""

    ending: Callable[[], bool]

    def __init__(
        self,
        job: Job,
        settings: Settings,
        spark: Any,
        *,
        is_once: bool,
        on_batch: Callable[[BatchProgress], None],
        on_stage: Callable[[Stage], None],
    ) -> None:
        self.progress = [QueryProgress(job.name, "lines", "a-group")]
        self.replay = replay_of(settings.folder / "checkpoints")
        self._on_batch = on_batch
        self._on_stage = on_stage

    def start(self) -> None:
        self._on_stage("first result")
        self._on_batch(BatchProgress("lines", 0, "2026-11-15T18:38:30.403Z", 4, 7.1, 9, None, 0))

    def poll(self) -> bool:
        return type(self).ending()

    def stop_after_batch(self) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    spark = FakeSpark()
    monkeypatch.setattr(session, "new_session", lambda *args, **kwargs: spark)
    monkeypatch.setattr(session, "is_prepared", lambda master: True)
    monkeypatch.setattr(Cluster, "check_reachable", lambda cluster: None)
    monkeypatch.setattr(runner, "JobRun", FakeRun)
    # It is for a process that has nothing else to do.
    monkeypatch.setattr("ottla.cli.pipeline.run.log_to", lambda path: None)
    monkeypatch.setattr(FakeRun, "ending", staticmethod(lambda: False), raising=False)
    return spark


def test_a_line_for_each_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: FakeSpark
) -> None:
    args = ["pipeline", "run", "logs", "--once", "--folder", str(tmp_path)]
    assert main([*args, "--json"]) == ExitCode.OK
    said = capsys.readouterr()
    stage, batch = map(json.loads, said.out.splitlines())
    assert (stage["event"], stage["stage"]) == ("stage", "first result")
    assert (batch["event"], batch["rows_per_s"]) == ("batch", 7.1)
    assert said.err == ""
    assert main(args) == ExitCode.OK
    said = capsys.readouterr()
    assert said.out == "2026-11-15T18:38:30.403Z  lines  batch 0, 4 rows, 7 rows/s, 9 ms, lag 0\n"
    assert "starting Spark on local[*]" in said.err
    assert " s  the first result is there\n" in said.err
    assert "logs: topic logs at " in said.err
    assert spark.is_stopped


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_spark_that_is_not_prepared_could_start_quicker(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spark: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
    is_prepared: bool,
) -> None:
    monkeypatch.setattr(session, "is_prepared", lambda master: is_prepared)
    text = said(capsys, ExitCode.OK, "run", "logs", "--once", "--folder", str(tmp_path))
    assert ("in half the time after `ottla pipeline prepare`" in text) != is_prepared


def test_what_goes_wrong_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spark: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ending() -> bool:
        raise runner.JobFailed("lines", "ValueError: told to fail", "sixty lines")

    monkeypatch.setattr(FakeRun, "ending", staticmethod(ending))
    text = said(capsys, ExitCode.FAILED, "run", "logs", "--json", "--folder", str(tmp_path))
    assert text == (
        "ottla: query lines failed: ValueError: told to fail; all that Spark said of it is in "
        f"{tmp_path / 'error.txt'}\n"
    )
    assert (tmp_path / "error.txt").read_text() == "sixty lines"
    assert spark.is_stopped


@pytest.mark.parametrize(
    ("once", "exit_code"), [([], ExitCode.OK), (["--once"], ExitCode.INTERRUPTED)]
)
def test_told_to_stop_it_ends_in_order(
    tmp_path: Path,
    spark: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
    once: list[str],
    exit_code: ExitCode,
) -> None:
    stop = Event()

    def ending() -> bool:
        stop.set()
        return True

    monkeypatch.setattr("ottla.cli.pipeline.run.stoppable", lambda _: nullcontext(stop))
    monkeypatch.setattr(FakeRun, "ending", staticmethod(ending))
    assert main(["pipeline", "run", "logs", "--folder", str(tmp_path), *once]) == exit_code
    assert spark.is_stopped


class FakeJava:
    """Stands for a JVM that is killed while it runs the queries."""

    died_of: str | None = None

    def end(self) -> None:
        self.died_of = "signal 9"

    def kill(self) -> None:
        raise AssertionError("it is gone")


@pytest.fixture
def dead_java(monkeypatch: pytest.MonkeyPatch, spark: FakeSpark) -> None:
    def gone() -> bool:
        raise ConnectionRefusedError

    def new_session(*args: Any, on_java: Callable[[Any], None], **kwargs: Any) -> Any:
        on_java(FakeJava())
        return spark

    monkeypatch.setattr(session, "new_session", new_session)
    monkeypatch.setattr(spark, "stop", gone)
    monkeypatch.setattr(FakeRun, "ending", staticmethod(gone))


@pytest.mark.usefixtures("dead_java")
def test_java_that_dies_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, ExitCode.FAILED, "run", "logs", "--json", "--folder", str(tmp_path))
    assert text == (
        "ottla: Java, which runs Spark, died (signal 9); `ottla pipeline run logs` continues "
        f"from the last whole batch; see {tmp_path / 'spark.log'}\n"
    )


@pytest.mark.usefixtures("dead_java")
@pytest.mark.parametrize(
    ("once", "exit_code"), [([], ExitCode.OK), (["--once"], ExitCode.INTERRUPTED)]
)
def test_java_may_be_told_to_stop_as_well(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    once: list[str],
    exit_code: ExitCode,
) -> None:
    """As systemd does, which tells all processes of a service."""
    monkeypatch.setattr("ottla.cli.pipeline.run.is_stopping", lambda: True)
    text = said(capsys, exit_code, "run", "logs", "--json", "--folder", str(tmp_path), *once)
    assert text == "ottla: stopped; `ottla pipeline run logs` continues from the last whole batch\n"


def test_a_replay_has_new_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: FakeSpark
) -> None:
    (tmp_path / "checkpoints" / "lines").mkdir(parents=True)
    args = ["--from", "2026-01-31T00:00:00Z", "--yes", "--folder", str(tmp_path)]
    text = said(capsys, ExitCode.OK, "replay", "logs", *args)
    assert "a replay has begun its outputs anew, from 2026-01-31T00:00:00.000Z on" in text
    assert not (tmp_path / "checkpoints" / "lines").exists()


def test_no_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--folder", str(tmp_path), "--bootstrap", "127.0.0.1:1"]
    text = said(capsys, ExitCode.FAILED, "run", "logs", *args)
    assert text.startswith("ottla: no broker answers at 127.0.0.1:1 (connection refused)")


def test_spark_that_does_not_start(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    spark: FakeSpark,
) -> None:
    def new_session(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no such master")

    monkeypatch.setattr(session, "new_session", new_session)
    text = said(capsys, ExitCode.FAILED, "run", "logs", "--json", "--folder", str(tmp_path))
    assert text.startswith("ottla: Spark did not start on local[*]: RuntimeError: no such master; ")
