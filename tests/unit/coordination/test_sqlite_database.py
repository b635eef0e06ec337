"""Who counts as dead. The rest is in the contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ottla.coordination import sqlite_database
from ottla.coordination.boot import boot_id
from ottla.coordination.sqlite_database import Database
from ottla.coordination.store import ConnectionLost, Create, SessionExpired
from ottla.kernel.disk import SystemDisk


class Machine:
    """Databases on one file, on a machine whose time and start are ours to say."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "coordination.db")
        self._opened: list[Database] = []
        self.now_s = 1000.0
        self.boot_id = "first"

    def open(self) -> Database:
        database = Database(
            self._path,
            SystemDisk(),
            monotonic_s=lambda: self.now_s,
            boot_id=self.boot_id,
            session_timeout_ms=18_000,
        )
        database.open()
        self._opened.append(database)
        return database

    @contextmanager
    def locked(self) -> Iterator[None]:
        """As by a process that hangs in the middle of a write."""
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
        connection.close()

    def end(self) -> None:
        for database in self._opened:
            database.abandon()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.end()


def test_who_renews_lives_on(machine: Machine) -> None:
    one, two = machine.open(), machine.open()
    one.multi([Create("/one", ephemeral=True)])
    for _ in range(10):
        machine.now_s += 7
        one.tick()
        two.tick()
    assert two.exists("/one")


def test_who_does_not_renew_is_over(machine: Machine) -> None:
    one, two = machine.open(), machine.open()
    one.multi([Create("/one", ephemeral=True)])
    for _ in range(4):
        machine.now_s += 5
        two.tick()
    assert not two.exists("/one")
    with pytest.raises(SessionExpired):
        one.multi([Create("/late")])
    with pytest.raises(SessionExpired):
        one.tick()


def test_a_machine_that_slept_expires_nobody(machine: Machine) -> None:
    """Linux and macOS stop monotonic time meanwhile. A virtual machine may not."""
    one, two = machine.open(), machine.open()
    one.multi([Create("/one", ephemeral=True)])
    two.multi([Create("/two", ephemeral=True)])
    machine.now_s += 3600
    two.tick()
    newcomer = machine.open()
    newcomer.tick()
    one.tick()
    for _ in range(10):
        machine.now_s += 1
        for database in (one, two, newcomer):
            database.tick()
    assert newcomer.exists("/one")
    assert newcomer.exists("/two")


def test_who_hung_does_not_judge_others_before_they_could_renew(machine: Machine) -> None:
    one, two = machine.open(), machine.open()
    one.multi([Create("/one", ephemeral=True)])
    machine.now_s += 20
    two.tick()
    machine.now_s += 5
    two.tick()
    assert two.exists("/one")
    machine.now_s += 2
    two.tick()
    assert not two.exists("/one")


def test_who_could_not_write_does_not_judge_others_before_they_could_renew(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_database, "_BUSY_TIMEOUT_S", 0.0)
    one, two = machine.open(), machine.open()
    one.multi([Create("/one", ephemeral=True)])
    two.multi([Create("/two", ephemeral=True)])
    with machine.locked():
        for _ in range(20):
            machine.now_s += 1
            for database in (one, two):
                with suppress(ConnectionLost):
                    database.tick()
    for _ in range(30):
        two.tick()
        one.tick()
        machine.now_s += 1
    assert one.exists("/one")
    assert one.exists("/two")


def test_a_newcomer_does_not_judge_before_others_could_renew(machine: Machine) -> None:
    one = machine.open()
    one.multi([Create("/one", ephemeral=True)])
    machine.now_s += 20
    newcomer = machine.open()
    newcomer.tick()
    assert newcomer.exists("/one")
    for _ in range(7):
        machine.now_s += 1
        newcomer.tick()
    assert not newcomer.exists("/one")


def test_who_is_late_but_was_not_ended_goes_on(machine: Machine) -> None:
    alone = machine.open()
    alone.multi([Create("/mine", ephemeral=True)])
    machine.now_s += 100
    alone.tick()
    machine.open()
    assert alone.exists("/mine")
    alone.multi([Create("/more")])


def test_nothing_lives_over_a_restart_of_the_machine(machine: Machine) -> None:
    one = machine.open()
    one.multi([Create("/one", ephemeral=True), Create("/lasting")])
    machine.boot_id = "second"
    machine.now_s = 1.0  # Monotonic time begins anew.
    two = machine.open()
    assert not two.exists("/one")
    assert two.exists("/lasting")


def test_a_free_lock_is_a_dead_process(machine: Machine) -> None:
    one, two = machine.open(), machine.open()
    one.multi([Create("/one", ephemeral=True)])
    one.abandon()
    two.tick()
    assert not two.exists("/one")


def test_ids_of_sessions_and_changes_are_never_given_again(machine: Machine) -> None:
    one = machine.open()
    one.multi([Create("/a")])
    first_session, first_czxid = one.session_id, one.get("/a").czxid
    one.close()
    two = machine.open()
    two.multi([Create("/b")])
    assert two.session_id > first_session
    assert two.get("/b").czxid > first_czxid


def test_the_machine_says_which_start_this_is() -> None:
    assert boot_id() == boot_id()
    assert len(boot_id()) == 36
