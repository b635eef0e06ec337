"""Several processes on one file, and what happens when one dies or the file does."""

from __future__ import annotations

import asyncio
import glob
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from ottla.coordination.sqlite_database import CHANGES_KEPT
from ottla.coordination.store import (
    ConnectionLost,
    SessionState,
    Set,
    StoreUnusable,
)
from tests.contract.coordination.backends import SqliteBackend
from tests.contract.coordination.peers import Peers


@pytest.fixture
def backend(tmp_path: Path) -> SqliteBackend:
    return SqliteBackend(tmp_path)


def test_processes_that_count_together_lose_no_step(backend: SqliteBackend, peers: Peers) -> None:
    counters = peers.start("sqlite", backend.path, 3)
    counters[0].ask("create", "/count", "0", False)
    for counter in counters:
        counter.tell("increment", "/count", 50)
    for counter in counters:
        assert counter.hear() == {"result": None}
    assert counters[0].ask("get", "/count") == "150"


def test_one_of_two_conditional_sets_wins(backend: SqliteBackend, peers: Peers) -> None:
    one, other = peers.start("sqlite", backend.path, 2)
    one.ask("create", "/a", "", False)
    one.tell("set", "/a", "one", 0)
    other.tell("set", "/a", "other", 0)
    answers = [one.hear(), other.hear()]
    assert {"result": 1} in answers
    assert {"error": "BadVersion"} in answers


def test_watches_are_called_across_processes(backend: SqliteBackend, peers: Peers) -> None:
    writer, watcher = peers.start("sqlite", backend.path, 2)
    writer.ask("create", "/a", "", False)
    watcher.ask("watch", "/a")
    while writer.ask("set", "/a", "x", -1) < 3:
        pass
    assert watcher.hear() == {"changed": "/a"}


def test_ephemeral_nodes_of_a_killed_process_go(backend: SqliteBackend, peers: Peers) -> None:
    (victim,) = peers.start("sqlite", backend.path, 1)
    victim.ask("create", "/mine", "", True)
    victim.ask("create", "/lasting", "kept", False)

    async def scenario() -> None:
        store = await backend.open_store()
        gone = asyncio.Event()
        await store.watch_node("/mine", gone.set)
        assert await store.exists("/mine")
        victim.signal(signal.SIGKILL)
        await gone.wait()
        assert not await store.exists("/mine")
        assert (await store.get("/lasting")).data == b"kept"

    backend.run(scenario)
    assert glob.glob(backend.path + ".session-*") == []


def test_a_restart_right_after_a_kill_finds_the_place_free(
    backend: SqliteBackend, peers: Peers
) -> None:
    (victim,) = peers.start("sqlite", backend.path, 1)
    victim.ask("create", "/mine", "", True)
    victim.end()
    (successor,) = peers.start("sqlite", backend.path, 1)
    assert successor.ask("create", "/mine", "", True) == "/mine"


def test_killed_in_the_middle_of_writing_everything_is_whole(
    backend: SqliteBackend, peers: Peers
) -> None:
    for round_number in range(5):
        path = f"/count{round_number}"
        writer, killed = peers.start("sqlite", backend.path, 2)
        writer.ask("create", path, "0", False)
        killed.tell("increment", path, 100_000)
        for _ in range(20):
            writer.ask("increment", path, 1)
        killed.end()
        counted = int(writer.ask("get", path))
        assert counted >= 20
        writer.ask("increment", path, 1)
        assert int(writer.ask("get", path)) == counted + 1
        writer.end()
    connection = sqlite3.connect(backend.path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_peer_that_missed_trimmed_changes_looks_at_everything(backend: SqliteBackend) -> None:
    async def scenario() -> None:
        store, peer = await backend.open_store(), await backend.open_store()
        await store.create("/a")
        called = asyncio.Event()
        await peer.watch_node("/quiet", called.set)
        # One step that is longer than what is kept: nobody can see all of it.
        await store.multi([Set("/a", b"")] * (CHANGES_KEPT + 2_000))
        await called.wait()

    backend.run(scenario)
    connection = sqlite3.connect(backend.path)
    kept = connection.execute("SELECT count(*) FROM changes").fetchone()[0]
    connection.close()
    assert kept < 2 * CHANGES_KEPT


def test_a_file_of_something_else_is_left_alone(backend: SqliteBackend) -> None:
    connection = sqlite3.connect(backend.path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    _refuses(backend, "something else")


def test_a_file_that_is_no_database_is_named(backend: SqliteBackend) -> None:
    Path(backend.path).write_bytes(b"not a database at all" * 100)
    _refuses(backend, "damaged")


def test_a_file_of_a_later_version_is_refused(backend: SqliteBackend) -> None:
    async def make() -> None:
        await backend.open_store()

    backend.run(make)
    connection = sqlite3.connect(backend.path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    _refuses(backend, "layout 99")


def test_a_folder_that_cannot_be_written_is_an_error_at_once(backend: SqliteBackend) -> None:
    Path(backend.path).mkdir()

    async def scenario() -> None:
        with pytest.raises(ConnectionLost, match="unable to open"):
            await backend.open_store()

    backend.run(scenario)


def test_a_file_that_is_deleted_while_in_use_ends_the_session(backend: SqliteBackend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        states: list[SessionState] = []
        store.on_session(states.append)
        await store.create("/a")
        os.unlink(backend.path)
        with pytest.raises(StoreUnusable, match="deleted or replaced"):
            await store.create("/b")
        assert states == [SessionState.EXPIRED]

    backend.run(scenario)


def test_pages_overwritten_while_closed_are_an_error_that_names_the_file(
    backend: SqliteBackend,
) -> None:
    async def fill() -> None:
        store = await backend.open_store()
        await store.create("/a", b"x" * 100_000)

    backend.run(fill)
    size = os.path.getsize(backend.path)
    with open(backend.path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    _refuses(backend, "damaged")


def _refuses(backend: SqliteBackend, words: str) -> None:
    async def scenario() -> None:
        with pytest.raises(StoreUnusable, match=words) as caught:
            await backend.open_store()
        assert backend.path in str(caught.value)

    backend.run(scenario)
