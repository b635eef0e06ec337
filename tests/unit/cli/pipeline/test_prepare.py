"""With stand-ins for Spark and its Java; tests/pipeline/test_class_archive.py has the real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from ottla.cli.client import Cluster
from ottla.cli.errors import ExitCode
from ottla.cli.main import main
from ottla.pipeline.jobs.job import Job, Settings
from ottla.pipeline.run import java, runner, session
from ottla.pipeline.run.class_archive import ClassArchive
from ottla.pipeline.run.java import JavaHome, NoJava
from ottla.pipeline.run.java_process import JavaEnded
from ottla.pipeline.run.runner import JobFailed


class Spark:
    """A session, its Java and its run of a job."""

    def __init__(self) -> None:
        self.archive = "classes"
        """What Java writes; nothing where that is empty."""
        self.fails_with: Exception | None = None
        self.dies_of: str | None = None
        """Known when it has ended."""
        self.log = ""
        self.records = 0
        self.sessions = 0
        self.settings: Settings | None = None

    def new_session(
        self,
        name: str,
        *,
        archive_to_make: ClassArchive,
        on_java: Callable[[Any], None],
        folder: Path,
        **_: object,
    ) -> Any:
        self.sessions += 1
        if self.log:
            (folder / "spark.log").write_text(self.log)
        made = archive_to_make.stem.with_suffix(".part")

        def end(patience_s: float) -> None:
            assert patience_s > 60
            process.died_of = self.dies_of
            if self.archive:
                made.write_text(self.archive)

        process = SimpleNamespace(kill=lambda: None, end=end, died_of=None)
        on_java(process)
        return SimpleNamespace(stop=lambda: None)

    def run(self, job: Job, settings: Settings, spark: Any, **_: object) -> Any:
        self.settings = settings
        return SimpleNamespace(start=self._start, poll=lambda: False, close=lambda: None)

    def _start(self) -> None:
        assert self.settings is not None
        consumer = Cluster(self.settings.bootstrap, {}).consumer({"group.id": "any"})
        metadata = consumer.list_topics("activity", timeout=30)
        for number in metadata.topics["activity"].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition("activity", number), 30)
            self.records += high - low
        consumer.close()
        if self.fails_with is not None:
            raise self.fails_with


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    found = ClassArchive(tmp_path / "classes-0", tmp_path)
    home = JavaHome(tmp_path, 17, is_bundled=False, runtime=tmp_path)
    monkeypatch.setattr(java, "find_java", lambda: home)
    monkeypatch.setattr(session, "class_archive", lambda java: found)
    return found


@pytest.fixture
def spark(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> Spark:
    found = Spark()
    monkeypatch.setattr(session, "new_session", found.new_session)
    monkeypatch.setattr(runner, "JobRun", found.run)
    return found


def said(capsys: pytest.CaptureFixture[str], exit_code: ExitCode) -> str:
    assert main(["pipeline", "prepare"]) == exit_code
    return capsys.readouterr().err


def test_what_java_has_loaded_for_a_pipeline_is_kept(
    spark: Spark, archive: ClassArchive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, ExitCode.OK)
    path = archive.path()
    assert path is not None
    assert path.read_text() == "classes"
    assert f"ottla: prepared: {path} (7 B), after " in text
    assert spark.records == 1000
    # The broker, its data and what Spark wrote have gone.
    assert {one.suffix for one in tmp_path.iterdir()} == {".jsa", ".lock"}

    assert main(["pipeline", "prepare", "--json"]) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert (answer["archive"], answer["size_bytes"]) == (str(path), 7)
    assert said(capsys, ExitCode.OK) == f"ottla: Spark is prepared already: {path} (7 B)\n"
    assert spark.sessions == 1


@pytest.mark.parametrize(
    "error", [JobFailed("traffic", "no memory", ""), JavaEnded("exit code 1"), OSError("disk full")]
)
def test_a_run_that_fails_leaves_nothing(
    spark: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    spark.fails_with = error
    text = said(capsys, ExitCode.FAILED)
    assert text.splitlines()[-1].startswith("ottla: Spark was not prepared: ")
    assert str(error) in text
    assert {one.suffix for one in tmp_path.iterdir()} == {".lock"}


def test_a_java_that_dies_is_named_and_its_log_is_kept(
    spark: Spark, archive: ClassArchive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.fails_with = ConnectionRefusedError(111, "Connection refused")
    spark.dies_of, spark.log = "signal 9", "what Java said"
    text = said(capsys, ExitCode.FAILED)
    log = archive.log
    assert text.splitlines()[-1] == (
        f"ottla: Spark was not prepared: Java, which runs Spark, died (signal 9); see {log}"
    )
    assert log.read_text() == "what Java said"

    spark.fails_with = spark.dies_of = None
    said(capsys, ExitCode.OK)
    assert {one.suffix for one in tmp_path.iterdir()} == {".jsa", ".lock"}


def test_a_java_that_writes_none(spark: Spark, capsys: pytest.CaptureFixture[str]) -> None:
    spark.archive = ""
    assert "Java wrote no archive" in said(capsys, ExitCode.FAILED)


def test_one_at_a_time(
    spark: Spark, archive: ClassArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    with archive.lock():
        assert "another process is preparing Spark" in said(capsys, ExitCode.FAILED)
    assert spark.sessions == 0


def test_without_a_java_it_says_so(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> JavaHome:
        raise NoJava("Spark needs Java 17")

    monkeypatch.setattr(java, "find_java", none)
    assert said(capsys, ExitCode.FAILED) == "ottla: Spark needs Java 17\n"


def test_a_cache_that_cannot_be_made_is_named(
    archive: ClassArchive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    monkeypatch.setattr(session, "class_archive", lambda java: None)
    text = said(capsys, ExitCode.FAILED)
    assert text.startswith(f"ottla: the cache folder cannot be used: {file}/ottla: Not a directory")
    assert "set XDG_CACHE_HOME" in text


def test_a_cache_that_cannot_be_written_is_named(
    spark: Spark, archive: ClassArchive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = archive.stem.with_suffix(".lock")
    lock.mkdir()  # root may write anywhere, but not that
    text = said(capsys, ExitCode.FAILED)
    assert text.startswith(f"ottla: the cache folder cannot be used: {lock}: Is a directory; ")
    assert spark.sessions == 0


def test_a_spark_without_its_files(
    archive: ClassArchive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(session, "class_archive", lambda java: None)
    assert "a file of Java or of Spark is missing" in said(capsys, ExitCode.FAILED)
