from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.cli.supervisor.stuck_writer import StuckWriter, lock_holder

SESSION_S = 18.0

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO t VALUES (1)")
print("holds it", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("committed", flush=True)
connection.execute("BEGIN IMMEDIATE")
print("holds it again", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer(path: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds it\n"
        try:
            yield process
        finally:
            process.kill()


def make_database(folder: Path) -> str:
    path = str(folder / "cluster.db")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    return path


def test_who_holds_the_lock(tmp_path: Path) -> None:
    path = make_database(tmp_path)
    assert lock_holder(path) is None
    with writer(path) as process:
        assert lock_holder(path) == process.pid
    assert lock_holder(path) is None


def test_who_holds_it_for_longer_than_a_session_is_found(tmp_path: Path) -> None:
    path = make_database(tmp_path)
    stuck = StuckWriter(path, SESSION_S)
    with writer(path) as process:
        found = {second: stuck.look(100.0 + second) for second in range(25)}
    assert {second for second, pid in found.items() if pid is None} == set(range(19))
    assert {pid for second, pid in found.items() if second >= 19} == {process.pid}


def test_who_commits_meanwhile_is_at_work(tmp_path: Path) -> None:
    path = make_database(tmp_path)
    stuck = StuckWriter(path, SESSION_S)
    with writer(path) as process:
        for second in range(15):
            assert stuck.look(100.0 + second) is None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "committed\n"
        assert process.stdout.readline() == "holds it again\n"
        for second in range(15, 33):
            assert stuck.look(100.0 + second) is None
        assert stuck.look(134.0) == process.pid


def test_a_supervisor_that_has_stood_still_itself_does_not_judge_yet(tmp_path: Path) -> None:
    path = make_database(tmp_path)
    stuck = StuckWriter(path, SESSION_S)
    with writer(path):
        assert stuck.look(100.0) is None
        assert stuck.look(200.0) is None
        assert stuck.look(201.0) is None


def test_without_a_store_there_is_nobody(tmp_path: Path) -> None:
    assert StuckWriter(str(tmp_path / "cluster.db"), SESSION_S).look(100.0) is None
