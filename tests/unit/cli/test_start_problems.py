from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from ottla.cli.start_problems import data_dir_problem, in_words
from ottla.config.broker import BrokerConfig
from ottla.coordination.store import ConnectionLost


def test_folders_that_are_there_or_can_be_made(tmp_path: Path) -> None:
    assert data_dir_problem(str(tmp_path), "--data-dir") is None
    assert data_dir_problem(f"{tmp_path}/new/", "--data-dir") is None
    assert data_dir_problem(f"{tmp_path}/new/below/that", "--data-dir") is None


def test_a_folder_below_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert data_dir_problem("ottla-data", "--data-dir") is None


def test_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").symlink_to("nowhere")
    for name, there in (("file", "file"), ("file/x/y", "file"), ("broken", "broken")):
        problem = data_dir_problem(f"{tmp_path}/{name}", "--data-dir") or ""
        assert problem.startswith(f"--data-dir {tmp_path}/{name}: {tmp_path}/{there} is a file; ")


def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))
    problem = data_dir_problem(f"{tmp_path}/new", "log.dirs") or ""
    assert problem.startswith(f"log.dirs {tmp_path}/new: {tmp_path} is not writable; ")


def words_of(error: OSError, listener: str) -> str:
    return in_words(error, BrokerConfig({"listeners": f"PLAINTEXT://{listener}"}))


def test_a_taken_port_names_its_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        error = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        words = words_of(error, f"127.0.0.1:{port}")
    assert words.startswith(f"cannot listen on 127.0.0.1:{port}: Address already in use by ")
    assert f"(process {os.getpid()})" in words or not Path("/proc/net/tcp").exists()
    assert "--listen HOST:PORT" in words


def test_a_host_that_is_none() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    words = words_of(error, "nowhere.invalid:1")
    assert words.startswith("cannot listen on nowhere.invalid:1: Name or service not known; ")


def test_a_file() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "data/x")
    assert words_of(error, ":1") == "No space left on device: data/x"


@pytest.mark.parametrize(
    ("connect", "words"),
    [
        ("127.0.0.1:1,[::1]:2/kafka", "no answer; see that it runs, and that --zookeeper names it"),
        ("localhost, nowhere.invalid:2", "--zookeeper localhost, nowhere.invalid:2: nowhere.inval"),
    ],
)
def test_a_zookeeper_that_does_not_answer(
    connect: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: str, port: None) -> None:
        if host.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    config = BrokerConfig({"zookeeper.connect": connect})
    assert in_words(ConnectionLost("", "no answer"), config).startswith(words)
