"""With a program in place of Java; Java itself is in tests/pipeline/test_class_archive.py."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.run import class_archive
from ottla.pipeline.run.class_archive import CLASS_LIST, ClassArchive, class_archive_made, main

JAVA = """#!/bin/sh
for argument do
  case $argument in
    -XX:SharedClassListFile=*) names=${argument#*=} ;;
    -XX:SharedArchiveFile=*) made=${argument#*=} ;;
  esac
done
{first}
cp "$names" "$made"
"""


class Machine:
    """A Java, a Spark and a cache folder, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.java_home, self.spark_home = folder / "java", folder / "spark"
        self.cache = folder / "cache" / "ottla"
        self.list = folder / CLASS_LIST
        for file in ("java/lib/modules", "spark/jars/a.jar", "spark/jars/b.jar"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(file)
        (self.java_home / "bin").mkdir()
        self.write_java()

    def write_java(self, first: str = "") -> None:
        java = self.java_home / "bin" / "java"
        java.write_text(JAVA.replace("{first}", first))
        java.chmod(0o700)

    def archive(self) -> ClassArchive:
        found = ClassArchive.of(self.java_home, self.spark_home)
        assert found is not None
        return found

    def make(self) -> None:
        java = str(self.java_home / "bin" / "java")
        main([java, "a.jar:b.jar", str(self.list), str(self.archive().stem)])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "_QUIET_S", 0.0)
    monkeypatch.setattr(os, "nice", lambda by: by)
    monkeypatch.setattr(class_archive, "leave_signals", lambda: None)
    return Machine(tmp_path)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What the driver holds: when it is closed, the driver has ended."""
    read, write = os.pipe()
    with open(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield write
        os.close(write)


def test_the_first_run_says_what_belongs_into_it_and_others_use_it(
    machine: Machine, driver: int
) -> None:
    options = machine.archive().java_options(machine.list)
    assert options == f"-XX:DumpLoadedClassList={machine.list}"
    machine.list.write_text("java/lang/Object id: 0\njava/lang/Str")
    machine.make()

    path = machine.archive().path()
    assert path is not None
    assert path.read_text() == "java/lang/Object id: 0\n"
    assert {one.suffix for one in machine.cache.iterdir()} == {".jsa", ".lock"}
    options = machine.archive().java_options(machine.list)
    assert options == f"-XX:SharedArchiveFile={path}"
    assert not machine.list.exists()


@pytest.mark.parametrize("file", ["java/lib/modules", "spark/jars/b.jar"])
def test_another_java_or_spark_has_another(machine: Machine, tmp_path: Path, file: str) -> None:
    before = machine.archive()
    assert machine.archive() == before
    (tmp_path / file).write_text("a newer one")
    assert machine.archive() != before


def test_one_that_is_cut_off_is_deleted(machine: Machine, driver: int) -> None:
    machine.list.write_text("java/lang/Object id: 0\n")
    machine.make()
    path = machine.archive().path()
    assert path is not None
    path.write_text("java")
    assert "DumpLoadedClassList" in machine.archive().java_options(machine.list)
    assert not path.exists()
    assert not machine.archive().delete()


def test_nothing_is_left_of_one_that_could_not_be_made(machine: Machine, driver: int) -> None:
    machine.list.write_text("java/lang/Object id: 0\n")
    machine.write_java("touch $made; exit 1")
    machine.make()
    assert {one.suffix for one in machine.cache.iterdir()} == {".lock"}


def test_it_is_given_up_when_the_driver_ends(machine: Machine, tmp_path: Path, driver: int) -> None:
    machine.list.write_text("java/lang/Object id: 0\n")
    begun = tmp_path / "begun"
    machine.write_java(f"touch $made {begun}; exec sleep 600")

    def end_driver() -> None:
        while not begun.exists():
            time.sleep(0.01)
        os.write(driver, b"as readable as an end")

    thread = threading.Thread(target=end_driver)
    thread.start()
    machine.make()
    thread.join()
    assert {one.suffix for one in machine.cache.iterdir()} == {".lock"}


def test_it_is_made_beside_a_run(machine: Machine, tmp_path: Path) -> None:
    """Here the run ends before Java has loaded all."""
    machine.list.write_text("java/lang/Object id: 0\n")
    properties = {"java.home": str(machine.java_home), "java.class.path": "a.jar"}
    system = SimpleNamespace(getProperty=properties.get)
    lang = SimpleNamespace(System=system)
    spark: Any = SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)))
    with class_archive_made(spark, tmp_path):
        while not list(machine.cache.glob("classes-*.lock")):
            time.sleep(0.01)
    assert {one.suffix for one in machine.cache.glob("classes-*")} == {".lock"}


def test_without_a_list_nobody_is_started(tmp_path: Path) -> None:
    spark: Any = None
    with class_archive_made(spark, tmp_path):
        pass


def test_two_runs_make_one(machine: Machine, driver: int) -> None:
    machine.list.write_text("java/lang/Object id: 0\n")
    with open(machine.archive().stem.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machine.make()
    assert machine.archive().path() is None


def test_those_that_nobody_uses_go(machine: Machine, driver: int) -> None:
    machine.list.write_text("java/lang/Object id: 0\n")
    machine.archive()
    old, used = machine.cache / "classes-old-1.jsa", machine.cache / "classes-used-1.jsa"
    for path in (old, used):
        path.touch()
    long_ago_s = time.time() - 40 * 86_400
    os.utime(old, (long_ago_s, long_ago_s))
    machine.make()
    assert not old.exists()
    assert used.exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ClassArchive.of(machine.java_home, machine.spark_home) is None


def test_a_cache_that_fails_ends_no_run(machine: Machine, tmp_path: Path, driver: int) -> None:
    machine.list.write_text("java/lang/Object id: 0\n")
    archive = machine.archive()
    gone = ClassArchive(tmp_path / "gone" / "classes-0")
    main(["java", "a.jar", str(machine.list), str(gone.stem)])
    # What cannot be read or deleted is as good as not there.
    (machine.cache / f"{archive.stem.name}-1.jsa").mkdir()
    assert "DumpLoadedClassList" in archive.java_options(machine.list)
    assert not archive.delete()


def test_what_killed_runs_left_goes(machine: Machine, driver: int) -> None:
    machine.list.write_text("java/lang/Object id: 0\n")
    machine.archive()
    for name in ("left", "busy"):
        for suffix in ("lock", "txt", "part"):
            (machine.cache / f"classes-{name}.{suffix}").touch()
    with open(machine.cache / "classes-busy.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machine.make()
    unfinished = {one.name for one in machine.cache.iterdir() if one.suffix in (".txt", ".part")}
    assert unfinished == {"classes-busy.txt", "classes-busy.part"}
    assert machine.archive().path() is not None
