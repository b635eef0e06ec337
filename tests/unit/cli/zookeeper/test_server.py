"""With a shell script for Java. A real one runs in tests/compat/test_cli_zookeeper.py."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest

from ottla.cli.errors import Failure
from ottla.cli.zookeeper import server as zookeeper_server
from ottla.cli.zookeeper.server import ZooKeeperServer, is_serving


@pytest.fixture(autouse=True)
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script needs none, and not every Python has Spark."""
    monkeypatch.setattr(zookeeper_server, "zookeeper_jars", lambda: ["zookeeper-3.9.5.jar"])


def server(folder: Path, java: str) -> ZooKeeperServer:
    command = folder / "java"
    command.write_text(f"#!/bin/sh\n{java}\n")
    command.chmod(0o755)
    data_dir = folder / "data"
    data_dir.mkdir()
    return ZooKeeperServer(str(command), "127.0.0.1", 2181, str(data_dir))


def test_its_settings_are_in_the_data_dir(tmp_path: Path) -> None:
    with server(tmp_path, "exec sleep 100"):
        lines = (tmp_path / "data" / "zoo.cfg").read_text().splitlines()
    assert f"dataDir={tmp_path}/data" in lines
    assert "clientPortAddress=127.0.0.1" in lines
    assert "clientPort=2181" in lines


def test_one_that_ends_at_once_says_why_in_one_line(tmp_path: Path) -> None:
    said = "echo 'Exception in main'; echo 'Caused by: java.io.IOException: disk'; echo ' at x'"
    with (
        server(tmp_path, f"{said}; exit 1") as it,
        pytest.raises(Failure) as caught,
    ):
        it.wait_until_ready(lambda: False)
    assert str(caught.value) == (
        f"ZooKeeper could not start: java.io.IOException: disk (see {tmp_path}/data/zookeeper.log)"
    )


def test_one_that_said_nothing(tmp_path: Path) -> None:
    with server(tmp_path, "exit 1") as it, pytest.raises(Failure, match="it said nothing"):
        it.wait_until_ready(lambda: False)


def test_told_to_stop_it_waits_no_longer(tmp_path: Path) -> None:
    with server(tmp_path, "exec sleep 100") as it:
        assert not it.wait_until_ready(lambda: True)


def test_at_the_end_nothing_of_it_is_left(tmp_path: Path) -> None:
    with server(tmp_path, "exec sleep 100") as it:
        process = psutil.Process(it._running().pid)
        family = [process, *process.children(recursive=True)]
    _, left = psutil.wait_procs(family, timeout=20)
    assert left == []


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    with server(tmp_path, "exec sleep 100") as it:
        process = it._running()
        assert process.stdin is not None
        process.stdin.close()  # As the system does when the parent is killed.
        assert process.wait(20) != 0


def test_who_does_not_speak_zookeeper_is_not_serving() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        other.settimeout(20)

        assert not is_serving("127.0.0.1", port)  # It listens, and says nothing.
    assert not is_serving("127.0.0.1", port)
