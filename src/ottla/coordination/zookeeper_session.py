"""One session with ZooKeeper: a kazoo client that lives as long as its session, and no longer.

kazoo talks to the server in a thread of its own. When a session has expired, it begins another one
by itself, and whoever still waits in its queue would write under that. So there is one client for
each session: it makes no connection any more once its session is lost, and it is stopped for good.

Everything that the thread has to tell (answers, events, states) comes to the loop in the order in
which the server said it.

The thread would keep a session alive by itself, also of a broker whose loop stands still and which
serves nobody. So it goes on only while the loop turns: it sends no heartbeat, and makes no
connection, before the loop has answered it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry

from ottla.coordination.store import (
    BadVersion,
    ConnectionLost,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    StoreError,
    StoreUnusable,
)

_logger = logging.getLogger(__name__)

# It warns of every attempt to connect. What changes is reported here.
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

# kazoo would wait for up to a minute between two attempts, and so be late for a server that is
# back, and gives its sessions one more session time-out.
_RECONNECT_S_MAX = 1.0

# For the answer to a connection, kazoo waits for the session time-out divided by the number of
# hosts. A server that is just starting may accept a connection and never answer: with one host, the
# session would be over then. So kazoo is given each host several times.
_ATTEMPTS_A_SESSION = 4

_TURN_S = 0.5
"""A turn of the loop is recent for so long."""

_SILENCE_S = 2.0
"""After which somebody who waits for a start is told what it waits for."""

_STOP_TIMEOUT_S = 3.0
"""A server that hangs does not hold up whoever stops. The thread ends later by itself."""

_ERRORS: dict[type[Exception], type[StoreError]] = {
    exceptions.NoNodeError: NoNode,
    exceptions.NodeExistsError: NodeExists,
    exceptions.BadVersionError: BadVersion,
    exceptions.NotEmptyError: NotEmpty,
    exceptions.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    exceptions.SessionExpiredError: SessionExpired,
    exceptions.ConnectionLoss: ConnectionLost,
    exceptions.ConnectionClosedError: ConnectionLost,
    exceptions.OperationTimeoutError: ConnectionLost,
    exceptions.SessionMovedError: ConnectionLost,
}


def store_error(error: Exception, path: str) -> StoreError:
    """What kazoo raised, in the words of the store."""
    if isinstance(error, StoreError):
        return error
    kind = _ERRORS.get(type(error))
    if kind is None:
        return StoreUnusable(path, f"ZooKeeper refuses {path}: {type(error).__name__} {error}")
    if kind in (SessionExpired, ConnectionLost):
        return kind("", f"{kind.__name__}: no answer of ZooKeeper for {path}")
    return kind(path)


class _LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Where kazoo has two more threads, which call back in two orders, this has the loop."""

    running = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.completion_queue = self.callback_queue = self
        self._turned = threading.Event()
        self._turned_s = time.monotonic()
        self.is_over = False

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def put(self, call: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # The loop is closed: nobody waits for it.
            self.end()

    def end(self) -> None:
        self.is_over = True
        self._turned.set()

    def select(self, *args: Any, **kwargs: Any) -> Any:
        found = super().select(*args, **kwargs)
        self._wait_for_the_loop()
        return found

    def _wait_for_the_loop(self) -> None:
        if time.monotonic() - self._turned_s < _TURN_S:
            return
        self._turned.clear()
        self.put(self._turned.set)
        if not self.is_over:
            self._turned.wait()
        self._turned_s = time.monotonic()

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        self._wait_for_the_loop()
        if self.is_over:
            raise OSError("this session is over")
        return super().create_connection(*args, **kwargs)


class ZooKeeperSession:
    """Owned by `ZooKeeperStore`, one for each session. A crash leaves its ephemeral nodes until the
    server has not heard from it for the session time-out."""

    def __init__(
        self, hosts: str, timeout_ms: int, on_state: Callable[[SessionState], None]
    ) -> None:
        self._hosts = hosts
        self._on_state = on_state
        self._outstanding: set[asyncio.Future[Any]] = set()
        self._first_state: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handler = _LoopHandler(asyncio.get_running_loop())
        repeats = -(-_ATTEMPTS_A_SESSION // len(hosts.split(",")))
        self._client = KazooClient(
            ",".join([hosts] * repeats),
            timeout=timeout_ms / 1000,
            handler=self._handler,
            connection_retry=KazooRetry(max_tries=-1, max_delay=_RECONNECT_S_MAX),
            logger=_kazoo_logger,
        )
        self._client.add_listener(self._hear)
        self._is_stopping = False
        self._stopped = asyncio.Event()
        self.session_id = 0
        self.state: SessionState | None = None
        """None: not connected yet, or stopped."""

    async def start(self, timeout_s: float) -> None:
        waiting = asyncio.get_running_loop().call_later(
            _SILENCE_S, _logger.warning, "ZooKeeper at %s does not answer yet", self._hosts
        )
        self._client.start_async()
        try:
            async with asyncio.timeout(timeout_s):
                await self._first_state
        except BaseException as error:
            await self.stop()
            if isinstance(error, TimeoutError):
                raise ConnectionLost(
                    "", f"no ZooKeeper has answered at {self._hosts} for {timeout_s:g} s"
                ) from error
            raise
        finally:
            waiting.cancel()

    async def stop(self) -> None:
        self.state = None
        self._fail_outstanding(SessionExpired("", "the store is closed"))
        self._stop_client()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await self._stopped.wait()

    def request(self, begin: Callable[[KazooClient], Any]) -> asyncio.Future[Any]:
        """Sends what `begin` asks the client for. Raises what kazoo raises, and `StoreError`s when
        there is no connection: kazoo would keep the request until there is one."""
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLost("", f"not connected to ZooKeeper at {self._hosts}")
        if self.state is not SessionState.CONNECTED:
            raise SessionExpired("", "there is no session: open the store first")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._outstanding.add(future)
        begin(self._client).rawlink(partial(self._answered, future))
        return future

    def _answered(self, future: asyncio.Future[Any], result: Any) -> None:
        self._outstanding.discard(future)
        if future.done():
            return
        if result.exception is None:
            future.set_result(result.value)
        else:
            future.set_exception(result.exception)

    def _fail_outstanding(self, error: StoreError) -> None:
        outstanding, self._outstanding = self._outstanding, set()
        for future in outstanding:
            if not future.done():
                future.set_exception(error)

    # -- states -------------------------------------------------------------------------

    def _hear(self, state: str) -> None:
        """In kazoo's thread, before it does anything else."""
        if state == KazooState.LOST:
            self._handler.end()
        client_id = self._client.client_id
        self._handler.put(partial(self._heard, state, client_id[0] if client_id else 0))

    def _heard(self, state: str, session_id: int) -> None:
        if self.state is None and self._first_state.done():
            return  # It is stopped.
        if state == KazooState.CONNECTED:
            # Not every server that speaks ZooKeeper's protocol says that a session has expired:
            # ClickHouse Keeper gives another one instead.
            if self.session_id not in (0, session_id):
                self._expire()
                return
            self.session_id = session_id
            self._become(SessionState.CONNECTED)
            if not self._first_state.done():
                self._first_state.set_result(None)
        elif state == KazooState.SUSPENDED:
            # kazoo has failed what it had sent. This is what came since then: it would send it
            # once it is connected again.
            self._become(SessionState.SUSPENDED)
            self._fail_outstanding(ConnectionLost("", f"lost ZooKeeper at {self._hosts}"))
        else:
            self._expire()

    def _expire(self) -> None:
        self._fail_outstanding(
            SessionExpired("", f"session {self.session_id:#x} with ZooKeeper has expired")
        )
        self._stop_client()
        if not self._first_state.done():
            refused = ConnectionLost("", f"ZooKeeper at {self._hosts} refuses the connection")
            self._first_state.set_exception(refused)
        self._become(SessionState.EXPIRED)

    def _become(self, state: SessionState) -> None:
        if self.state is not state and self.state is not SessionState.EXPIRED:
            self.state = state
            self._on_state(state)

    def _stop_client(self) -> None:
        """Elsewhere: kazoo waits for its thread, which may wait for the server."""
        if not self._is_stopping:
            self._is_stopping = True
            self._handler.end()
            threading.Thread(target=self._stop, name="zookeeper-stop", daemon=True).start()

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            _logger.exception("kazoo could not be stopped")
        self._handler.put(self._stopped.set)
