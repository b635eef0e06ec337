from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.kernel.disk import SystemDisk
from ottla.pipeline.run import java


def error_of(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    exit_code = main(["zookeeper", *args])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return exit_code, captured.err


@pytest.mark.parametrize(
    "listen", ["2181", ":2181", "localhost:", "localhost:x", "localhost:70000"]
)
def test_an_address_that_is_none(listen: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(capsys, "--listen", listen) == (
        2,
        f"ottla: --listen {listen}: give it as HOST:PORT, such as localhost:2181\n",
    )


def test_a_port_that_is_taken_names_the_owner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        exit_code, error = error_of(
            capsys, "--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path)
        )
    assert exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use by " in error
    assert "--listen HOST:PORT" in error


def test_a_host_that_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 203.0.113.0/24 is for documentation: no machine has such an address.
    exit_code, error = error_of(capsys, "--listen", "203.0.113.1:2181", "--data-dir", str(tmp_path))
    assert exit_code == 1
    assert "cannot listen on 203.0.113.1:2181" in error


def test_a_data_dir_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    exit_code, error = error_of(capsys, "--data-dir", str(tmp_path / "file"))
    assert exit_code == 1
    assert "is a file; give a folder" in error


def test_a_data_dir_that_another_one_uses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = SystemDisk().lock(str(tmp_path / ".lock"))
    assert lock is not None
    exit_code, error = error_of(capsys, "--data-dir", str(tmp_path))
    lock.release()
    assert exit_code == 1
    assert f"--data-dir {tmp_path}: another ZooKeeper uses it" in error


def test_without_java_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    exit_code, error = error_of(capsys, "--data-dir", str(tmp_path / "data"))
    assert exit_code == 1
    assert "ZooKeeper needs Java 17 or newer (none was found)" in error
