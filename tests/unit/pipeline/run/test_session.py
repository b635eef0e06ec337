from __future__ import annotations

import os
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark import SparkContext

from ottla.pipeline.run import session
from ottla.pipeline.run.class_archive import ClassArchive
from ottla.pipeline.run.java import JavaHome
from ottla.pipeline.run.java_process import JavaEnded
from ottla.pipeline.run.session import local_cores, session_settings

SRC = str(Path(__file__).resolve().parents[4] / "src")


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local[*]", os.cpu_count()),
        ("spark://a:7077", None),
        ("local-cluster[2,1,512]", None),
        ("k8s://https://a", None),
        ("yarn", None),
    ],
)
def test_cores_of_a_master_that_is_this_process(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_only_a_local_driver_hides_from_the_network(tmp_path: Path) -> None:
    local = session_settings("local[2]", tmp_path)
    assert local["spark.driver.host"] == "127.0.0.1"
    assert local["spark.sql.shuffle.partitions"] == "2"
    elsewhere = session_settings("spark://a:7077", tmp_path)
    assert {"spark.driver.host", "spark.sql.shuffle.partitions"}.isdisjoint(elsewhere)


def test_spark_keeps_next_to_nothing_for_pages_that_are_off(tmp_path: Path) -> None:
    found = session_settings("local[2]", tmp_path)
    assert found["spark.ui.enabled"] == "false"
    kept = {
        "spark.ui.retainedJobs",
        "spark.ui.retainedStages",
        "spark.ui.retainedTasks",
        "spark.sql.ui.retainedExecutions",
        "spark.sql.streaming.numRecentProgressUpdates",
    }
    assert all(int(found[name]) <= 100 for name in kept)


def test_files_lie_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = session_settings("local", Path("with space"))
    assert found["spark.sql.warehouse.dir"] == str(tmp_path / "with space" / "warehouse")
    assert f"{tmp_path.as_uri()}/with%20space/log4j2" in found["spark.driver.extraJavaOptions"]


def test_workers_find_the_sources_beside_what_the_user_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/mine", SRC, ""]))
    found = session_settings("local", tmp_path)
    assert found["spark.executorEnv.PYTHONPATH"] == os.pathsep.join([SRC, "/mine"])


def test_workers_find_an_installed_package_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_PACKAGES", sysconfig.get_path("purelib"))
    assert "spark.executorEnv.PYTHONPATH" not in session_settings("local", tmp_path)


@pytest.mark.parametrize(
    ("master", "is_set"), [("local[2]", True), ("spark://a:7077", True), ("yarn", False)]
)
def test_python_workers_are_spoken_to_without_tcp_where_that_was_tried(
    tmp_path: Path, master: str, is_set: bool
) -> None:
    found = session_settings(master, tmp_path)
    assert ("spark.python.unix.domain.socket.enabled" in found) == is_set
    assert ("spark.python.unix.domain.socket.dir" in found) == is_set


@pytest.mark.parametrize(
    ("master", "temporary", "folder"),
    [
        ("local[2]", "/var/tmp", "/var/tmp"),  # of a demo, it goes with the demo
        ("local[2]", f"/tmp/{'long' * 20}", "/tmp"),  # names of sockets are short
        ("spark://a:7077", "/var/tmp", "/tmp"),  # on other machines there may be none
    ],
)
def test_sockets_lie_among_temporary_files_where_their_names_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, temporary: str, folder: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", temporary)
    found = session_settings(master, tmp_path)
    assert found["spark.python.unix.domain.socket.dir"] == folder


class Java:
    """Stands for a JVM: the first one dies."""

    options: ClassVar[list[str]] = []

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        self.options.append(settings["spark.driver.extraJavaOptions"])

    def connect(self) -> str:
        if len(self.options) == 1:
            raise JavaEnded("exit code 134: core dumped")
        return "a gateway"


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> type[Java]:
    monkeypatch.setattr(Java, "options", [])
    monkeypatch.setattr(session, "JavaProcess", Java)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **_: None)
    return Java


def start_java(
    folder: Path, settings: Mapping[str, str] | None = None, made: ClassArchive | None = None
) -> None:
    home = JavaHome(folder, 17, is_bundled=False, runtime=folder)
    given = {"spark.driver.extraJavaOptions": "-Da=b", **(settings or {})}
    session._start_java(given, home, folder, lambda java: None, made)


def test_java_that_dies_of_its_archive_is_started_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: type[Java]
) -> None:
    path = tmp_path / "classes-0-6.jsa"
    path.write_text("broken")
    monkeypatch.setattr(
        ClassArchive, "of", lambda *_: ClassArchive(tmp_path / "classes-0", tmp_path)
    )
    start_java(tmp_path)
    assert java.options == [f"-XX:SharedArchiveFile={path} -Da=b", " -Da=b"]
    assert not path.exists()


def test_java_that_dies_without_one_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: type[Java]
) -> None:
    monkeypatch.setattr(
        ClassArchive, "of", lambda *_: ClassArchive(tmp_path / "classes-0", tmp_path)
    )
    with pytest.raises(JavaEnded):
        start_java(tmp_path)
    assert java.options[0] == " -Da=b"
    # Classes in front of Spark's would make another archive.
    start_java(tmp_path, {"spark.driver.extraClassPath": "a.jar"})
    assert java.options[1] == " -Da=b"


def test_java_that_makes_an_archive_uses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: type[Java]
) -> None:
    (tmp_path / "classes-0-6.jsa").write_text("broken")
    monkeypatch.setattr(ClassArchive, "making_options", lambda *_: "-XX:ArchiveClassesAtExit=a")
    with pytest.raises(JavaEnded):
        start_java(tmp_path, made=ClassArchive(tmp_path / "classes-0", tmp_path))
    assert java.options == ["-XX:ArchiveClassesAtExit=a -Da=b"]


def test_whether_a_start_can_be_made_quicker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = JavaHome(tmp_path, 17, is_bundled=False, runtime=tmp_path)
    archive: ClassArchive | None = ClassArchive(tmp_path / "classes-0", tmp_path)
    monkeypatch.setattr(session, "find_java", lambda: home)
    monkeypatch.setattr(ClassArchive, "of", lambda *_: archive)
    assert not session.is_prepared("local[2]")
    # There is no Java of ours.
    assert session.is_prepared("sc://a:15002")
    (tmp_path / "classes-0-7.jsa").write_text("classes")
    assert session.is_prepared("local[2]")
    # Nothing can be kept.
    archive = None
    assert session.is_prepared("local[2]")
