"""The stores that the contract holds for."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from kazoo.client import KazooClient

from ottla.coordination.sqlite import SqliteStore
from ottla.coordination.store import ConnectionLost, SessionExpired, SessionState, Store
from ottla.coordination.zookeeper import ZooKeeperStore
from ottla.kernel.clock import SystemClock
from ottla.kernel.disk import SystemDisk
from ottla.kernel.workers import ThreadWorkers
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.remote_store import RemoteStore
from ottla.testing.store import MemoryEnsemble, MemoryStore
from tests.contract.coordination.cuttable_proxy import CuttableProxy


class Backend(Protocol):
    """One store that several sessions share, within `run`."""

    async def open_store(self) -> Store: ...

    async def expire(self, store: Store) -> None: ...

    def lose_next_answer(self, store: Store) -> None:
        """The next write happens, and raises `ConnectionLost`."""

    async def cut_off(self, store: Store) -> None:
        """It hears of no change from here on, for whatever reason, until `heal`."""

    async def heal(self, store: Store) -> None: ...

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None: ...


class SharedBackend(Backend, Protocol):
    """One that processes share."""

    kind: str
    path: str

    async def expire_those_that_hang(self) -> None:
        """Returns at once where time must pass by itself."""


class MemoryBackend:
    def __init__(self) -> None:
        self._ensemble = MemoryEnsemble()

    async def open_store(self) -> Store:
        store = MemoryStore(self._ensemble)
        await store.open()
        return store

    async def expire(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        self._ensemble.expire(store)

    def lose_next_answer(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        self._ensemble.lose_next_answer(store)

    async def cut_off(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        self._ensemble.disconnect(store)

    async def heal(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        self._ensemble.reconnect(store)

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        asyncio.run(_with_deadline(scenario))


class RemoteBackend:
    """A simulated ensemble on other hosts, in virtual time."""

    def __init__(self) -> None:
        self._ensemble = MemoryEnsemble()
        self._loop: VirtualLoop

    async def open_store(self) -> Store:
        store = RemoteStore(self._ensemble, self._loop, random.Random(0), session_timeout_s=6)
        await store.open()
        return store

    async def expire(self, store: Store) -> None:
        heard = asyncio.Event()
        store.on_session(lambda state: heard.set() if state is SessionState.EXPIRED else None)
        self._ensemble.end_session(store.session_id)
        await heard.wait()

    def lose_next_answer(self, store: Store) -> None:
        assert isinstance(store, RemoteStore)
        store.lose_next_answer()

    async def cut_off(self, store: Store) -> None:
        assert isinstance(store, RemoteStore)
        store.cut()

    async def heal(self, store: Store) -> None:
        assert isinstance(store, RemoteStore)
        store.heal()

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def main(loop: VirtualLoop) -> None:
            self._loop = loop
            await scenario()

        run_virtual(main)


class ShiftedClock(SystemClock):
    def __init__(self) -> None:
        self.shift_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.shift_s


class SqliteBackend:
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "coordination.db")
        self._workers: list[ThreadWorkers] = []
        self._stores: list[SqliteStore] = []

    def new_store(self, *, clock: SystemClock | None = None) -> SqliteStore:
        # Each with a thread of its own, as processes would have.
        workers = ThreadWorkers()
        store = SqliteStore(
            self.path, clock=clock or SystemClock(), disk=SystemDisk(), workers=workers
        )
        self._workers.append(workers)
        self._stores.append(store)
        return store

    async def open_store(self) -> Store:
        store = self.new_store()
        await store.open()
        return store

    async def expire(self, store: Store) -> None:
        lost: asyncio.Future[SessionState] = asyncio.get_running_loop().create_future()
        store.on_session(lambda state: None if lost.done() else lost.set_result(state))
        await self.expire_those_that_hang()
        with suppress(SessionExpired):
            await store.set("/", b"")
        assert await lost is SessionState.EXPIRED

    def lose_next_answer(self, store: Store) -> None:
        """As when the disk fails right after a commit."""
        assert isinstance(store, SqliteStore)
        database = store._opened()
        wake_peers = database._wake_peers

        def fail_once() -> None:
            database._wake_peers = wake_peers  # type: ignore[method-assign]
            raise ConnectionLost("", "disk I/O error, as ordered")

        database._wake_peers = fail_once  # type: ignore[method-assign]

    async def cut_off(self, store: Store) -> None:
        """Its peers cannot wake it."""
        os.rename(*self._wakeup_paths(store))

    async def heal(self, store: Store) -> None:
        os.rename(*reversed(self._wakeup_paths(store)))

    def _wakeup_paths(self, store: Store) -> tuple[str, str]:
        path = f"{self.path}.session-{store.session_id}.wake"
        return path, path + ".away"

    async def expire_those_that_hang(self) -> None:
        """A peer comes for which much time passes, as if all others hung meanwhile."""
        clock = ShiftedClock()
        peer = self.new_store(clock=clock)
        await peer.open()
        database = peer._opened()

        def tick() -> bool:
            database.tick()
            return len(database._sessions(database._cursor())) == 1

        # Between two of its own ticks little time may pass: else it takes itself for the one that
        # hung, and judges nobody yet.
        clock.shift_s += 20
        while not await peer._call(tick):
            clock.shift_s += 2
        await peer.close()

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def and_close() -> None:
            try:
                await _with_deadline(scenario)
            finally:
                for store in self._stores:
                    await store.close()

        try:
            asyncio.run(and_close())
        finally:
            for workers in self._workers:
                workers.close()


class ZooKeeperBackend:
    """A part of a server's tree that no other test has, with a proxy for each store."""

    kind = "zookeeper"

    def __init__(self, address: str) -> None:
        self._address = address
        self._chroot = f"/contract/{uuid.uuid4().hex}"
        self._stores: dict[ZooKeeperStore, CuttableProxy] = {}
        self.path = f"{address}{self._chroot}"
        """What a process of its own connects to."""

    async def open_store(self, *, session_timeout_ms: int = 30_000) -> Store:
        proxy = CuttableProxy(self._address)
        await proxy.start()
        store = ZooKeeperStore(proxy.address + self._chroot, session_timeout_ms=session_timeout_ms)
        self._stores[store] = proxy
        await store.open()
        return store

    async def expire(self, store: Store) -> None:
        """The server ends it, as if it had not heard from it for too long: another connection
        takes the session over, and ends it, while the store cannot take it back."""
        assert isinstance(store, ZooKeeperStore)
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        store.on_session(
            lambda state: (
                lost.set_result(None) if state is SessionState.EXPIRED and not lost.done() else None
            )
        )
        client_id = store._opened()._client.client_id
        self._stores[store].cut()
        await asyncio.to_thread(_end_session, self._address, client_id)
        self._stores[store].heal()
        await lost

    def proxy_of(self, store: Store) -> CuttableProxy:
        assert isinstance(store, ZooKeeperStore)
        return self._stores[store]

    def lose_next_answer(self, store: Store) -> None:
        self.proxy_of(store).lose_next_answer()

    async def cut_off(self, store: Store) -> None:
        self.proxy_of(store).cut()
        await state_of(store, SessionState.SUSPENDED)

    async def heal(self, store: Store) -> None:
        self.proxy_of(store).heal()
        await state_of(store, SessionState.CONNECTED)

    async def expire_those_that_hang(self) -> None: ...

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def and_close() -> None:
            try:
                await _with_deadline(scenario)
            finally:
                for store, proxy in self._stores.items():
                    await store.close()
                    await proxy.stop()

        asyncio.run(and_close())


async def state_of(store: Store, state: SessionState) -> None:
    """Waits for it."""
    assert isinstance(store, ZooKeeperStore)
    while store._opened().state is not state:
        await asyncio.sleep(0.01)


def _end_session(address: str, client_id: tuple[int, bytes]) -> None:
    client = KazooClient(address, client_id=client_id)
    client.start()
    client.stop()
    client.close()


async def _with_deadline(scenario: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(60):
        await scenario()
