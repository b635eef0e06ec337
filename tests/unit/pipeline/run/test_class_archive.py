"""With a program in place of Java; Java itself is in tests/pipeline/test_class_archive.py."""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from pathlib import Path

import pytest

from ottla.pipeline.run.class_archive import ClassArchive
from ottla.pipeline.run.java import JavaHome

JAVA = """#!/bin/sh
for argument do
  case $argument in -XX:SharedArchiveFile=*) made=${argument#*=} ;; esac
done
{first}
echo "$@" > "$made"
"""


class Machine:
    """A Java, a Spark and a cache folder, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.java_home, self.spark_home = folder / "java", folder / "spark"
        self.cache = folder / "cache" / "ottla"
        for file in ("java/lib/server/classes.jsa", "java/lib/modules", "spark/jars/a.jar"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(file)
        (self.java_home / "bin").mkdir()
        self.java = JavaHome(self.java_home, 17, is_bundled=False, runtime=self.java_home)
        self.write_java()

    def write_java(self, first: str = "") -> None:
        java = self.java_home / "bin" / "java"
        java.write_text(JAVA.replace("{first}", first))
        java.chmod(0o700)

    def archive(self) -> ClassArchive:
        found = ClassArchive.of(self.java_home, self.spark_home)
        assert found is not None
        return found

    def make(self, text: str = "classes") -> Path | None:
        """As a Java with these options does when it ends."""
        archive = self.archive()
        with archive.lock() as is_ours:
            assert is_ours
            option = shlex.split(archive.making_options(self.java))[0]
            Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_text(text)
            return archive.keep()

    def kinds(self) -> set[str]:
        return {one.suffix for one in self.cache.iterdir()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Machine(tmp_path)


def test_what_java_has_written_is_used_from_then_on(machine: Machine) -> None:
    assert machine.archive().java_options() == ""
    path = machine.make()
    assert path is not None
    assert machine.archive().path() == path
    assert path.read_text() == "classes"
    assert machine.kinds() == {".jsa", ".lock"}
    assert machine.archive().java_options() == f"-XX:SharedArchiveFile={path}"


@pytest.mark.parametrize("file", ["java/lib/modules", "spark/jars/a.jar"])
def test_another_java_or_spark_has_another(machine: Machine, tmp_path: Path, file: str) -> None:
    before = machine.archive()
    assert machine.archive() == before
    (tmp_path / file).write_text("a newer one")
    assert machine.archive() != before


def test_one_that_is_cut_off_is_deleted(machine: Machine) -> None:
    path = machine.make()
    assert path is not None
    path.write_text("cla")
    assert machine.archive().java_options() == ""
    assert not path.exists()
    assert not machine.archive().delete()


def test_java_that_wrote_none(machine: Machine) -> None:
    archive = machine.archive()
    with archive.lock():
        assert archive.keep() is None
    assert archive.path() is None


def test_half_of_one_that_a_killed_process_left_is_not_taken(machine: Machine) -> None:
    archive = machine.archive()
    archive.stem.with_suffix(".part").write_text("half")
    other = machine.cache / "classes-other.part"
    other.touch()
    with archive.lock():
        assert archive.keep() is None
    assert machine.kinds() == {".lock"}


def test_what_is_of_a_spark_that_is_gone_goes(machine: Machine) -> None:
    gone = machine.make()
    assert gone is not None
    machine.spark_home.rename(machine.spark_home.with_name("moved"))
    machine.spark_home = machine.spark_home.with_name("moved")
    moved = machine.make()
    assert moved is not None
    assert {one.name for one in machine.cache.iterdir()} == {
        moved.name,
        machine.archive().stem.with_suffix(".lock").name,
    }
    assert machine.make() == moved


def test_what_another_process_makes_is_left_to_it(machine: Machine) -> None:
    machine.archive()
    busy = machine.cache / "classes-busy.part"
    busy.touch()
    with open(busy.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machine.make()
    assert busy.exists()


def test_two_at_once_make_one(machine: Machine) -> None:
    with machine.archive().lock() as is_ours, machine.archive().lock() as is_also_ours:
        assert (is_ours, is_also_ours) == (True, False)


def test_nothing_unfinished_is_left(machine: Machine) -> None:
    archive = machine.archive()
    with archive.lock():
        archive.stem.with_suffix(".part").write_text("half")
    assert machine.kinds() == {".lock"}


def test_a_java_without_an_archive_of_its_own_classes_gets_one_first(machine: Machine) -> None:
    (machine.java_home / "lib" / "server" / "classes.jsa").unlink()
    archive = machine.archive()
    made, base = shlex.split(archive.making_options(machine.java))
    assert made.startswith("-XX:ArchiveClassesAtExit=")
    base_path = Path(base.removeprefix("-XX:SharedArchiveFile="))
    assert base_path.read_text().startswith("-Xshare:dump ")
    assert machine.kinds() == {".base"}


def test_a_java_that_cannot_make_one_leaves_nothing(machine: Machine) -> None:
    (machine.java_home / "lib" / "server" / "classes.jsa").unlink()
    machine.write_java('touch "$made"; exit 1')
    with pytest.raises(OSError, match="Java made no archive of its own classes"):
        machine.archive().making_options(machine.java)
    assert machine.kinds() == set()


def test_those_that_nobody_uses_go(machine: Machine) -> None:
    machine.archive()
    old = [machine.cache / f"classes-old{end}" for end in ("-1.jsa", ".base", ".log")]
    used = machine.cache / "classes-used-1.jsa"
    for path in (*old, used):
        path.touch()
    long_ago_s = time.time() - 40 * 86_400
    for path in old:
        os.utime(path, (long_ago_s, long_ago_s))
    machine.make()
    assert [path for path in old if path.exists()] == []
    assert used.exists()


def test_one_that_another_process_deletes_meanwhile_is_no_error(machine: Machine) -> None:
    machine.archive()
    # As between a listing of the folder and the next step: a name with nothing behind it.
    (machine.cache / "classes-gone-1.jsa").symlink_to("nothing")
    machine.make()
    assert machine.archive().path() is not None


def test_to_use_one_keeps_it(machine: Machine) -> None:
    path = machine.make()
    assert path is not None
    os.utime(path, (0, 0))
    machine.archive().java_options()
    assert path.stat().st_mtime > 0


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ClassArchive.of(machine.java_home, machine.spark_home) is None


def test_what_cannot_be_read_or_deleted_is_as_good_as_not_there(machine: Machine) -> None:
    archive = machine.archive()
    (machine.cache / f"{archive.stem.name}-1.jsa").mkdir()
    assert archive.java_options() == ""
    assert not archive.delete()
