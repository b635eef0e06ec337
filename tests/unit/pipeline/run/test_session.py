from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from ottla.pipeline.run import session
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
    # Wherever this JVM, and those of executors, have their temporary files.
    assert found.get("spark.python.unix.domain.socket.dir") == ("/tmp" if is_set else None)
