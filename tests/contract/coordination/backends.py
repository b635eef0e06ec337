"""The stores that the contract holds for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ottla.coordination.sqlite import SqliteStore
from ottla.coordination.store import SessionExpired, SessionState, Store
from ottla.kernel.clock import SystemClock
from ottla.kernel.disk import SystemDisk
from ottla.kernel.workers import ThreadWorkers
from ottla.testing.store import MemoryEnsemble, MemoryStore


class Backend(Protocol):
    """One store that several sessions share, within `run`."""

    async def open_store(self) -> Store: ...

    async def expire(self, store: Store) -> None: ...

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None: ...


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

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        asyncio.run(_with_deadline(scenario))


class ShiftedClock(SystemClock):
    def __init__(self, shift_s: float) -> None:
        self._shift_s = shift_s

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._shift_s


class SqliteBackend:
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
        await self.expire_everybody()
        with suppress(SessionExpired):
            await store.set("/", b"")
        assert await lost is SessionState.EXPIRED

    async def expire_everybody(self) -> None:
        """A peer comes for which much time has passed, as if all others had hung since."""
        peer = self.new_store(clock=ShiftedClock(1000))
        await peer.open()
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


async def _with_deadline(scenario: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(20):
        await scenario()
