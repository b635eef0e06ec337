"""A session with a simulated ensemble on other hosts, as a client of ZooKeeper has one.

Requests and answers take time and stay in order. The ensemble ends a session that it has not heard
of for its time-out, whatever has become of the client: it was killed, paused or cut off. The client
learns of that only when it reaches the ensemble again. It gives up a connection when it has heard
nothing for two thirds of the time-out; what was asked on it and not answered may have happened.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

from ottla.coordination.single_operations import SingleOperations
from ottla.coordination.store import (
    ConnectionLost,
    Node,
    Operation,
    SessionExpired,
    SessionState,
    StoreError,
    Watch,
    check_path,
)
from ottla.coordination.watches import Watches
from ottla.testing.loop import VirtualLoop
from ottla.testing.store import Changes, MemoryEnsemble, mark

T = TypeVar("T")

_RECONNECT_S_MAX = 0.1


class RemoteStore(SingleOperations):
    """Made by a process, and lost with it; what the ensemble has of its session outlives it."""

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        loop: VirtualLoop,
        rng: random.Random,
        *,
        session_timeout_s: float,
        latency_s_max: float = 0.005,
    ) -> None:
        self.session_id = 0
        self._ensemble = ensemble
        self._loop = loop
        self._rng = rng
        self._session_timeout_s = session_timeout_s
        self._latency_s_max = latency_s_max
        self._watches = Watches()
        self._session_callbacks: list[Callable[[SessionState], None]] = []
        self._state: SessionState | None = None
        self._process = Context()
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._connection = 0
        self._is_cut = False
        self._held: list[Callable[[], None]] = []
        self._there_s = 0.0
        self._back_s = 0.0
        self._client_heard_s = 0.0
        self._ensemble_heard_s = 0.0
        self._is_answer_lost = False
        self._is_dead = False
        self.on_write: Callable[[], None] = lambda: None
        """Told of each write when it has happened, and before the client hears of it."""

    # -- faults -----------------------------------------------------------------------------

    def cut(self) -> None:
        """Nothing gets through, in either direction, until `heal`."""
        self._is_cut = True

    def heal(self) -> None:
        """What was sent meanwhile arrives, unless the client has given up its connection."""
        self._is_cut = False
        held, self._held = self._held, []
        for arrive in held:
            self._loop.call_soon(arrive, context=self._process)

    def reset(self) -> None:
        """The connection breaks; the client makes another."""
        if self._state is SessionState.CONNECTED:
            self._process.run(self._give_up_connection)

    def lose_next_answer(self) -> None:
        """The connection breaks when the next write has happened."""
        self._is_answer_lost = True

    def die(self) -> None:
        """With its process. The ensemble finds out when the session has timed out."""
        self._is_dead = True
        self._connection += 1

    # -- sessions ---------------------------------------------------------------------------

    async def open(self) -> None:
        assert self._state in (None, SessionState.EXPIRED), "opened twice"
        self._process = copy_context()
        self._connection += 1
        self._client_heard_s = self._loop.now_s
        await self._ask(self._begin_session)
        self._become(SessionState.CONNECTED)
        self._look_everywhere()
        self._keep_alive(self.session_id)

    async def close(self) -> None:
        if self._state in (SessionState.CONNECTED, SessionState.SUSPENDED):
            session_id = self.session_id
            try:
                await self._ask(lambda: self._ensemble.end_session(session_id))
            except StoreError:
                pass  # It times out.
        self._state = None
        self._connection += 1

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session_callbacks.append(callback)

    def _begin_session(self) -> None:
        self.session_id = self._ensemble.begin_session(self)
        self._ensemble_heard_s = self._loop.now_s
        self._end_when_silent(self.session_id)

    def _end_when_silent(self, session_id: int) -> None:
        """Called in the ensemble, as often as the session could be over."""
        due_s = self._ensemble_heard_s + self._session_timeout_s
        if self._loop.now_s >= due_s or session_id != self.session_id:
            self._ensemble.end_session(session_id)
        else:
            self._loop.call_at(due_s, self._end_when_silent, session_id, context=Context())

    def _keep_alive(self, session_id: int) -> None:
        """Called in the process, six times in a time-out."""
        is_over = self._is_dead or self._state in (None, SessionState.EXPIRED)
        if is_over or self.session_id != session_id:
            return
        silent_s = self._loop.now_s - self._client_heard_s
        if self._state is SessionState.CONNECTED:
            if silent_s > self._session_timeout_s * 2 / 3:
                self._give_up_connection()
            else:
                self._go_there(lambda: self._hear_of(session_id))
        self._loop.call_later(self._session_timeout_s / 6, self._keep_alive, session_id)

    def _hear_of(self, session_id: int) -> None:
        if self._ensemble.has_session(session_id):
            self._ensemble_heard_s = self._loop.now_s
            self._come_back(lambda: None)
        else:
            self._come_back(self._expired)

    def _give_up_connection(self) -> None:
        self._connection += 1
        self._held.clear()
        self._fail_pending(ConnectionLost("", "the connection to the ensemble was lost"))
        self._become(SessionState.SUSPENDED)
        pause_s = self._rng.uniform(0, _RECONNECT_S_MAX)
        self._loop.call_later(pause_s, self._reconnect, self._connection)

    def _reconnect(self, connection: int) -> None:
        if connection == self._connection and self._state is SessionState.SUSPENDED:
            self._client_heard_s = self._loop.now_s
            session_id = self.session_id

            def arrive() -> None:
                self._hear_of(session_id)
                self._come_back(self._reconnected)

            self._go_there(arrive)

    def _reconnected(self) -> None:
        if self._state is SessionState.SUSPENDED:
            self._become(SessionState.CONNECTED)
            self._look_everywhere()

    def _expired(self) -> None:
        self._connection += 1
        self._fail_pending(SessionExpired("", "the session has timed out"))
        self._become(SessionState.EXPIRED)

    def _become(self, state: SessionState) -> None:
        if self._state is not state:
            self._state = state
            for callback in list(self._session_callbacks):
                callback(state)

    # -- the way there and back -----------------------------------------------------------------

    def _arrival_s(self) -> float:
        return self._loop.now_s + self._rng.uniform(0, self._latency_s_max)

    def _go_there(self, perform: Callable[[], None]) -> None:
        self._there_s = max(self._arrival_s(), self._there_s + 1e-6)
        arrive = partial(self._arrive, self._connection, perform)
        self._loop.call_at(self._there_s, arrive, context=Context())

    def _come_back(self, hear: Callable[[], None]) -> None:
        self._back_s = max(self._arrival_s(), self._back_s + 1e-6)
        arrive = partial(self._arrive, self._connection, partial(self._hear_back, hear))
        self._loop.call_at(self._back_s, arrive, context=self._process)

    def _arrive(self, connection: int, callback: Callable[[], None]) -> None:
        if connection != self._connection:
            return  # It was on a connection that is lost.
        if self._is_cut:
            self._held.append(partial(self._arrive, connection, callback))
        else:
            callback()

    def _hear_back(self, hear: Callable[[], None]) -> None:
        self._client_heard_s = self._loop.now_s
        hear()

    async def _ask(self, operation: Callable[[], T], *, is_write: bool = False) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending[future] = None
        self._go_there(partial(self._perform, future, operation, is_write))
        # Not asyncio.timeout: requests begin without a task (`kernel/eager.py`).
        silence = ConnectionLost("", "the ensemble does not answer")
        timer = self._loop.call_later(self._session_timeout_s, self._fail, future, silence)
        try:
            return await future
        finally:
            timer.cancel()
            self._pending.pop(future, None)

    def _perform(
        self, future: asyncio.Future[T], operation: Callable[[], T], is_write: bool
    ) -> None:
        """In the ensemble."""
        self._ensemble_heard_s = self._loop.now_s
        try:
            result = operation()
        except SessionExpired:
            self._come_back(self._expired)
        except StoreError as error:
            self._come_back(partial(self._fail, future, error))
        else:
            if is_write:
                self.on_write()
            if is_write and self._is_answer_lost:
                self._is_answer_lost = False
                self._ensemble.lost_answer_count += 1
                self._come_back(self._give_up_connection)
            else:
                self._come_back(partial(self._answer, future, result))

    def _answer(self, future: asyncio.Future[T], result: T) -> None:
        if not future.done():
            future.set_result(result)

    def _fail(self, future: asyncio.Future[T], error: StoreError) -> None:
        if not future.done():
            future.set_exception(error)

    def _fail_pending(self, error: StoreError) -> None:
        for future in list(self._pending):
            if not future.done():
                future.set_exception(error)

    # -- nodes ------------------------------------------------------------------------------

    async def get(self, path: str) -> Node:
        return await self._call(lambda: self._ensemble.get(path), path)

    async def get_many(self, paths: Sequence[str]) -> dict[str, Node]:
        ensemble = self._ensemble
        return await self._call(
            lambda: {path: ensemble.get(path) for path in paths if ensemble.exists(path)}, *paths
        )

    async def exists(self, path: str) -> bool:
        return await self._call(lambda: self._ensemble.exists(path), path)

    async def children(self, path: str) -> list[str]:
        return await self._call(lambda: self._ensemble.children(path), path)

    async def tree(self, path: str) -> dict[str, Node]:
        return await self._call(lambda: self._ensemble.tree(path), path)

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        session_id = self.session_id
        return await self._call(
            lambda: self._ensemble.multi(session_id, operations),
            *(operation.path for operation in operations),
            is_write=True,
        )

    async def watch_node(self, path: str, callback: Callable[[], None]) -> Watch:
        return await self._call(lambda: self._watches.add_node(path, callback), path)

    async def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        return await self._call(lambda: self._watches.add_children(path, callback), path)

    async def _call(self, operation: Callable[[], T], *paths: str, is_write: bool = False) -> T:
        for path in paths:
            check_path(path)
        if self._state in (None, SessionState.EXPIRED):
            raise SessionExpired("", "there is no session: open the store first")
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("", "there is no connection to the ensemble")
        session_id = self.session_id

        def in_session() -> T:
            if not self._ensemble.has_session(session_id):
                raise SessionExpired("", "the session has timed out")
            return operation()

        return await self._ask(in_session, is_write=is_write)

    def hear(self, changes: Changes) -> None:
        """The ensemble tells of what has changed, also to clients that are not there any more."""
        if not self._is_dead and self._state is SessionState.CONNECTED:
            self._come_back(partial(self._look_at, tuple(changes)))

    def _look_at(self, changes: Changes) -> None:
        mark(self._watches, changes)
        self._watches.call_marked()

    def _look_everywhere(self) -> None:
        self._watches.mark_all()
        self._watches.call_marked()
