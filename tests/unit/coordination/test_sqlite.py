"""What happens between the loop and the file. What every store promises is in
tests/contract/coordination."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.coordination import sqlite_database
from ottla.coordination.sqlite import SqliteStore
from ottla.coordination.store import ConnectionLost, SessionExpired, SessionState
from ottla.kernel.clock import SystemClock
from ottla.kernel.disk import SystemDisk
from ottla.kernel.workers import ThreadWorkers


class Alarm:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualClock(SystemClock):
    """Time passes, and timers ring, only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.alarms: list[Alarm] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Alarm:
        self.alarms.append(Alarm(callback))
        return self.alarms[-1]

    def ring(self) -> int:
        due = [alarm for alarm in self.alarms if not alarm.is_cancelled]
        self.alarms.clear()
        for alarm in due:
            alarm.callback()
        return len(due)


class Stores:
    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "coordination.db")
        self.clock = ManualClock()
        self._workers = ThreadWorkers()
        self._opened: list[SqliteStore] = []

    async def open(self, clock: ManualClock | None = None) -> SqliteStore:
        store = SqliteStore(
            self.path,
            clock=clock or self.clock,
            disk=SystemDisk(),
            workers=self._workers,
            session_timeout_ms=18_000,
        )
        await store.open()
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()
        self._workers.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """As by a process that hangs in the middle of a write."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Stores], Awaitable[None]]], None]:
    monkeypatch.setattr(sqlite_database, "_BUSY_TIMEOUT_S", 0.05)

    def run(scenario: Callable[[Stores], Awaitable[None]]) -> None:
        async def main() -> None:
            stores = Stores(tmp_path)
            try:
                async with asyncio.timeout(20):
                    await scenario(stores)
            finally:
                await stores.close()

        asyncio.run(main())

    return run


Run = Callable[[Callable[[Stores], Awaitable[None]]], None]


def test_a_file_that_is_locked_for_too_long_suspends_the_session(run: Run) -> None:
    async def scenario(stores: Stores) -> None:
        store = await stores.open()
        states: list[SessionState] = []
        store.on_session(states.append)
        with stores.locked(), pytest.raises(ConnectionLost, match="locked"):
            await store.create("/a")
        assert states == [SessionState.SUSPENDED]
        assert not await store.exists("/a")
        await store.create("/a")
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]

    run(scenario)


def test_a_session_that_ticks_lives_however_long(run: Run) -> None:
    async def scenario(stores: Stores) -> None:
        store = await stores.open()
        await store.create("/mine", ephemeral=True)
        for _ in range(40):
            stores.clock.now_s += 1
            assert stores.clock.ring() == 1
            await store.exists("/")  # The same queue: the tick is done.
        await stores.open()
        assert await store.exists("/mine")

    run(scenario)


def test_a_session_that_does_not_tick_is_ended_by_a_peer(run: Run) -> None:
    async def scenario(stores: Stores) -> None:
        store = await stores.open()
        states: list[SessionState] = []
        store.on_session(states.append)
        await store.create("/mine", ephemeral=True)
        later = ManualClock()
        peer = await stores.open(later)
        for _ in range(20):
            later.now_s += 1
            assert later.ring() == 1
            await peer.exists("/")  # The same queue: the tick is done.
        assert not await peer.exists("/mine")
        with pytest.raises(SessionExpired):
            await store.create("/again")
        assert states == [SessionState.EXPIRED]
        assert stores.clock.ring() == 0

    run(scenario)


def test_a_tick_that_fails_is_told_and_tried_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stores: Stores) -> None:
        store = await stores.open()
        states: list[SessionState] = []
        store.on_session(states.append)
        stores.clock.now_s += 10
        with stores.locked():
            stores.clock.ring()
            while not stores.clock.alarms:
                await asyncio.sleep(0.01)
        assert states == [SessionState.SUSPENDED]
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "locked" in caplog.text
        assert stores.clock.ring() == 1
        await store.exists("/")
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]

    run(scenario)


def test_a_peers_change_wakes_without_a_tick(run: Run) -> None:
    async def scenario(stores: Stores) -> None:
        store, peer = await stores.open(), await stores.open()
        heard = asyncio.Event()
        await store.watch_node("/a", heard.set)
        await peer.create("/a")
        await heard.wait()

    run(scenario)


def test_a_closed_store_leaves_nothing_behind(run: Run) -> None:
    async def scenario(stores: Stores) -> None:
        store = await stores.open()
        with pytest.raises(AssertionError, match="opened twice"):
            await store.open()
        assert store.session_id > 0
        await store.close()
        assert store.session_id == 0
        assert stores.clock.ring() == 0
        with pytest.raises(SessionExpired):
            await store.exists("/")
        await store.close()  # Once is enough, twice does no harm.

    run(scenario)
