"""The default store: one file that every broker of the machine opens. No server, no JVM."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from ottla.coordination.boot import boot_id
from ottla.coordination.single_operations import SingleOperations
from ottla.coordination.sqlite_database import Database
from ottla.coordination.store import (
    ConnectionLost,
    Node,
    Operation,
    SessionExpired,
    SessionState,
    StoreUnusable,
    Watch,
    check_path,
)
from ottla.coordination.watches import Watches
from ottla.kernel.clock import Clock, Timer
from ottla.kernel.disk import Disk
from ottla.kernel.workers import Workers

_logger = logging.getLogger(__name__)

_TICK_S_MAX = 1.0
_TICKS_A_SESSION = 6
"""Two for each renewal: who ticks less often takes itself for one that hangs."""

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore(SingleOperations):
    """One session. Owned by the broker, from start to stop. A crash leaves its ephemeral
    nodes, until a peer or the next start finds that the session's lock is free."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock,
        disk: Disk,
        workers: Workers,
        session_timeout_ms: int = 18_000,
    ) -> None:
        self._path = path
        self._clock = clock
        self._disk = disk
        self._workers = workers.ordered("coordination")
        self._session_timeout_ms = session_timeout_ms
        self._tick_s = min(_TICK_S_MAX, session_timeout_ms / 1000 / _TICKS_A_SESSION)
        self._database: Database | None = None
        self._state: SessionState | None = None
        self._watches = Watches()
        self._session_callbacks: list[Callable[[SessionState], None]] = []
        self._tick_timer: Timer | None = None
        self._reader_fd = -1
        self._is_listening = False

    @property
    def session_id(self) -> int:
        return self._database.session_id if self._database else 0

    async def open(self) -> None:
        if self._database is not None:
            assert self._state is SessionState.EXPIRED, "opened twice"
            await self._leave(self._database.abandon)
            self._database = None
        database = Database(
            self._path,
            self._disk,
            monotonic_s=self._clock.monotonic_s,
            boot_id=boot_id(),
            session_timeout_ms=self._session_timeout_ms,
        )
        await self._workers.submit(database.open)
        self._database = database
        assert database.wakeup is not None
        if database.wakeup.is_bound:
            self._reader_fd = database.wakeup.fileno()
            asyncio.get_running_loop().add_reader(self._reader_fd, self._woken)
        self._is_listening = True
        self._tick_timer = self._clock.call_later(self._tick_s, self._tick)
        self._become(SessionState.CONNECTED)
        self._watches.mark_all()
        self._watches.call_marked()

    async def close(self) -> None:
        if self._database is not None:
            await self._leave(self._database.close)
            self._database = None

    async def _leave(self, ending: Callable[[], None]) -> None:
        self._stop_listening()
        self._state = None
        await self._workers.submit(ending)

    def _stop_listening(self) -> None:
        self._is_listening = False
        if self._tick_timer is not None:
            self._tick_timer.cancel()
            self._tick_timer = None
        if self._reader_fd >= 0:
            asyncio.get_running_loop().remove_reader(self._reader_fd)
            self._reader_fd = -1

    # -- the tree -----------------------------------------------------------------------

    async def get(self, path: str) -> Node:
        check_path(path)
        return await self._call(self._opened().get, path)

    async def get_many(self, paths: Sequence[str]) -> dict[str, Node]:
        for path in paths:
            check_path(path)
        return await self._call(self._opened().get_many, paths)

    async def exists(self, path: str) -> bool:
        check_path(path)
        return await self._call(self._opened().exists, path)

    async def children(self, path: str) -> list[str]:
        check_path(path)
        return await self._call(self._opened().children, path)

    async def tree(self, path: str) -> dict[str, Node]:
        check_path(path)
        return await self._call(self._opened().tree, path)

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        return await self._call(self._opened().multi, operations)

    async def watch_node(self, path: str, callback: Callable[[], None]) -> Watch:
        check_path(path)
        return self._watches.add_node(path, callback)

    async def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        check_path(path)
        return self._watches.add_children(path, callback)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session_callbacks.append(callback)

    # -- between the loop and the worker ------------------------------------------------

    def _opened(self) -> Database:
        if self._database is None or self._state in (None, SessionState.EXPIRED):
            raise SessionExpired("", "there is no session: open the store first")
        return self._database

    def _call(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        future = self._workers.submit(function, *args, **kwargs)
        future.add_done_callback(self._called)
        # A caller that is cancelled must not take the news of changes with it.
        return asyncio.shield(future)

    def _called(self, future: asyncio.Future[T]) -> None:
        if self._database is None or future.cancelled():
            return
        changes = self._database.changes
        while changes:
            change = changes.popleft()
            if change is None:
                self._watches.mark_all()
            elif change.is_data:
                self._watches.mark_data(change.path)
            else:
                self._watches.mark_existence(change.path)
        self._watches.call_marked()
        error = future.exception()
        if self._state in (None, SessionState.EXPIRED):
            return
        if isinstance(error, (SessionExpired, StoreUnusable)):
            # A store that is gone or damaged ends the session too: nobody can vouch for it.
            self._stop_listening()
            self._become(SessionState.EXPIRED)
        elif isinstance(error, ConnectionLost):
            self._become(SessionState.SUSPENDED)
        elif error is None:
            self._become(SessionState.CONNECTED)

    def _become(self, state: SessionState) -> None:
        if self._state is state:
            return
        self._state = state
        for callback in list(self._session_callbacks):
            callback(state)

    def _woken(self) -> None:
        assert self._database is not None
        assert self._database.wakeup is not None
        self._database.wakeup.drain()
        self._background(self._database.see_changes)

    def _tick(self) -> None:
        assert self._database is not None
        self._tick_timer = None
        self._background(self._database.tick).add_done_callback(self._ticked)

    def _ticked(self, future: asyncio.Future[None]) -> None:
        if self._is_listening:
            self._tick_timer = self._clock.call_later(self._tick_s, self._tick)

    def _background(self, function: Callable[[], None]) -> asyncio.Future[None]:
        future = self._call(function)
        future.add_done_callback(_log_failure)
        return future


def _log_failure(future: asyncio.Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _logger.warning("coordination store: %s", error)
