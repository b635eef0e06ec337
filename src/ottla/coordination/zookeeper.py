"""The store of a cluster over several machines: a ZooKeeper ensemble, by kazoo.

Nothing of this is imported by a broker that has no ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from ottla.coordination.single_operations import SingleOperations
from ottla.coordination.store import (
    ConnectionLost,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
    SessionState,
    Set,
    StoreError,
    TooLarge,
    Watch,
    check_path,
    parent_of,
    size_bytes,
    with_parents,
)
from ottla.coordination.watches import Watches
from ottla.coordination.zookeeper_session import ZooKeeperSession, store_error

_logger = logging.getLogger(__name__)

# ZooKeeper's own is 1 MB (jute.maxbuffer). A larger request is not refused: the server closes the
# connection, and whoever tries again loses the next one.
_REQUEST_BYTES_MAX = 1_000_000

_OWN_FOLDER = "/zookeeper"
"""ZooKeeper keeps its quotas and its configuration there."""

T = TypeVar("T")


class ZooKeeperStore(SingleOperations):
    """One session at a time. Owned by the broker, from start to stop. A crash leaves its ephemeral
    nodes until the session time-out has passed."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        in_flight_max: int = 10,
    ) -> None:
        """`connect` is Kafka's zookeeper.connect: HOST:PORT,…[/chroot]. The chroot is made if it
        is not there. `in_flight_max` is for large reads: kazoo's thread parses the answers, and
        must leave time to the loop between them."""
        self._hosts, slash, chroot = connect.partition("/")
        self._chroot = (slash + chroot).rstrip("/")
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._in_flight_max = in_flight_max
        self._session: ZooKeeperSession | None = None
        self._watches = Watches()
        self._session_callbacks: list[Callable[[SessionState], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._state_waiters: list[asyncio.Future[None]] = []

    @property
    def session_id(self) -> int:
        return self._session.session_id if self._session else 0

    async def open(self) -> None:
        assert self._session is None or self._session.state is SessionState.EXPIRED, "opened twice"
        self._session = None
        session = ZooKeeperSession(
            self._hosts,
            self._session_timeout_ms,
            on_state=lambda state: self._session_is(session, state),
        )
        await session.start(self._connection_timeout_ms / 1000)
        self._session = session
        try:
            await self._make_chroot()
            await self._watch_all_again()
        except BaseException:
            self._session = None
            await session.stop()
            raise
        self._tell(SessionState.CONNECTED)
        self._look_everywhere()

    async def close(self) -> None:
        session, self._session = self._session, None
        for task in self._tasks:
            task.cancel()
        if session is not None:
            await session.stop()

    async def _make_chroot(self) -> None:
        for full in with_parents(self._chroot) if self._chroot else []:
            await self._make(full)

    async def _make(self, full: str) -> None:
        if await self._ask(full, lambda client: client.exists_async(full)) is None:
            with suppress(NodeExists):  # Another broker does the same right now.
                await self._ask(full, lambda client: client.create_async(full))

    # -- reading ------------------------------------------------------------------------

    async def get(self, path: str) -> Node:
        return (await self._get(path))[0]

    async def _get(self, path: str) -> tuple[Node, int]:
        """The node, and how many children it has."""
        full = self._full(path)
        data, stat = await self._ask(path, lambda client: client.get_async(full))
        node = Node(data or b"", stat.version, stat.czxid, stat.ephemeralOwner)
        return node, stat.numChildren

    async def get_many(self, paths: Sequence[str]) -> dict[str, Node]:
        """As `tree`, goes on where it was when a connection is lost and comes back."""
        found: dict[str, Node] = {}
        remaining = iter(paths)
        while step := list(islice(remaining, self._in_flight_max)):
            nodes = await self._patiently(partial(map, self._get_if_there, step))
            found.update((path, node) for path, node in zip(step, nodes, strict=True) if node)
        return found

    async def _get_if_there(self, path: str) -> Node | None:
        try:
            return await self.get(path)
        except NoNode:
            return None

    async def exists(self, path: str) -> bool:
        full = self._full(path)
        return await self._ask(path, lambda client: client.exists_async(full)) is not None

    async def children(self, path: str) -> list[str]:
        full = self._full(path)
        return sorted(await self._ask(path, lambda client: client.get_children_async(full)))

    async def tree(self, path: str) -> dict[str, Node]:
        """Goes on where it was when a connection is lost and comes back within the session
        time-out: a large tree is read in many steps."""
        found: dict[str, Node] = {}
        waiting = [path]
        while waiting:
            step = waiting[-self._in_flight_max :]
            del waiting[-self._in_flight_max :]
            for each, node, names in await self._look_at(step):
                found[each] = node
                waiting += [f"{each.rstrip('/')}/{name}" for name in names]
        found.pop(path, None)
        return dict(sorted(found.items()))

    async def _look_at(self, paths: Sequence[str]) -> list[tuple[str, Node, list[str]]]:
        """Those that are still there, with the names of their children."""
        looked = await self._patiently(lambda: map(self._look, paths))
        return [each for each in looked if each is not None]

    async def _patiently(self, calls: Callable[[], Iterable[Coroutine[Any, Any, T]]]) -> list[T]:
        """What these reads return; again from their beginning when the connection was lost."""
        while True:
            try:
                return await _gather(calls())
            except ConnectionLost:
                await self._reconnected()

    async def _look(self, path: str) -> tuple[str, Node, list[str]] | None:
        if self._full(path) == _OWN_FOLDER:
            return None
        try:
            node, child_count = await self._get(path)
            return path, node, await self.children(path) if child_count else []
        except NoNode:
            return None

    # -- writing ------------------------------------------------------------------------

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        if not operations:
            return []
        if (size := size_bytes(operations)) > _REQUEST_BYTES_MAX:
            raise TooLarge(
                operations[0].path, f"{size} bytes at once are more than ZooKeeper takes"
            )

        def begin(client: Any) -> Any:
            transaction = client.transaction()
            for operation in operations:
                self._add(transaction, operation)
            return transaction.commit_async()

        results = await self._ask(operations[0].path, begin)
        # Before the one that failed all are rolled back, and after it inconsistent.
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and type(result).__name__ not in _NOT_THE_REASON:
                raise store_error(result, _path_of(result, operation))
        return [self._result(*each) for each in zip(operations, results, strict=True)]

    def _add(self, transaction: Any, operation: Operation) -> None:
        full = self._full(operation.path)
        match operation:
            case Create(_, data, ephemeral, sequential):
                transaction.create(full, data, ephemeral=ephemeral, sequence=sequential)
            case Set(_, data, version):
                transaction.set_data(full, data, version)
            case Delete(_, version):
                transaction.delete(full, version)
            case _:
                transaction.check(full, operation.version)

    def _result(self, operation: Operation, result: Any) -> str | int | None:
        if isinstance(operation, Create):
            return self._local(result)
        if isinstance(operation, Set):
            version: int = result.version
            return version
        return None

    # -- watches ------------------------------------------------------------------------

    async def watch_node(self, path: str, callback: Callable[[], None]) -> Watch:
        watch = self._watches.add_node(path, callback)
        try:
            await self._arm_node(path)
        except BaseException:
            watch.cancel()
            raise
        return watch

    async def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        watch = self._watches.add_children(path, callback)
        try:
            await self._arm_children(path)
        except BaseException:
            watch.cancel()
            raise
        return watch

    async def _arm_node(self, path: str) -> None:
        """For the next change: ZooKeeper tells of one only."""
        full = self._full(path)
        await self._ask(path, lambda client: client.exists_async(full, watch=self._node_event))

    async def _arm_children(self, path: str) -> None:
        full = self._full(path)
        while True:
            with suppress(NoNode):
                await self._ask(
                    path,
                    lambda client: client.get_children_async(full, watch=self._children_event),
                )
                return
            # It tells of the node's creation; unless that was just now.
            stat = await self._ask(
                path, lambda client: client.exists_async(full, watch=self._children_event)
            )
            if stat is None:
                return

    def _node_event(self, event: Any) -> None:
        # Without a path it is kazoo that has forgotten its watches, with its connection.
        if event.path and (path := self._local(event.path)) in self._watches.node_paths():
            self._in_background(self._hear_of_node(path))

    def _children_event(self, event: Any) -> None:
        if event.path and (path := self._local(event.path)) in self._watches.children_paths():
            self._in_background(self._hear_of_children(path))

    async def _hear_of_node(self, path: str) -> None:
        # First the next watch, then the call: of what changes in between, the call tells.
        await self._arm_node(path)
        self._watches.mark_data(path)
        self._watches.call_marked()

    async def _hear_of_children(self, path: str) -> None:
        await self._arm_children(path)
        self._watches.mark_children(path)
        self._watches.call_marked()

    async def _watch_all_again(self) -> None:
        watched = [(self._arm_node, path) for path in self._watches.node_paths()]
        watched += [(self._arm_children, path) for path in self._watches.children_paths()]
        remaining = iter(watched)
        while step := list(islice(remaining, self._in_flight_max)):
            await _gather(arm(path) for arm, path in step)

    async def _watch_again_and_look(self) -> None:
        await self._watch_all_again()
        self._look_everywhere()

    def _look_everywhere(self) -> None:
        self._watches.mark_all()
        self._watches.call_marked()

    # -- the session --------------------------------------------------------------------

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session_callbacks.append(callback)

    def _session_is(self, session: ZooKeeperSession, state: SessionState) -> None:
        if session is not self._session:
            return  # It is not open yet, or closed.
        _logger.log(
            logging.INFO if state is SessionState.CONNECTED else logging.WARNING,
            "ZooKeeper at %s: session %#x is %s",
            self._hosts,
            session.session_id,
            state.value,
        )
        if state is SessionState.CONNECTED:
            self._in_background(self._watch_again_and_look())
        self._tell(state)

    def _tell(self, state: SessionState) -> None:
        waiters, self._state_waiters = self._state_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback in list(self._session_callbacks):
            callback(state)

    async def _reconnected(self) -> None:
        """Raises `ConnectionLost` when it takes longer than the session can live."""
        try:
            async with asyncio.timeout(self._session_timeout_ms / 1000):
                while self._opened().state is SessionState.SUSPENDED:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._state_waiters.append(waiter)
                    await waiter
        except TimeoutError as error:
            raise ConnectionLost("", f"not connected to ZooKeeper at {self._hosts}") from error

    def _opened(self) -> ZooKeeperSession:
        if self._session is None:
            raise SessionExpired("", "there is no session: open the store first")
        return self._session

    async def _ask(self, path: str, begin: Callable[[Any], Any]) -> Any:
        try:
            # A caller that is cancelled does not cancel what is on its way.
            return await asyncio.shield(self._opened().request(begin))
        except (asyncio.CancelledError, StoreError):
            raise
        except Exception as error:
            raise store_error(error, path) from error

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        async def quietly() -> None:
            # The next connection, or the next session, will watch again.
            with suppress(ConnectionLost, SessionExpired):
                await work

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("ZooKeeper at %s: a watch is lost: %s", self._hosts, error)

    # -- paths --------------------------------------------------------------------------

    def _full(self, path: str) -> str:
        check_path(path)
        return self._chroot + path if path != "/" else self._chroot or "/"

    def _local(self, full: str) -> str:
        return full.removeprefix(self._chroot) or "/"


_NOT_THE_REASON = ("RolledBackError", "RuntimeInconsistency")


def _path_of(error: Exception, operation: Operation) -> str:
    """Of a node that cannot be made because of its parent, the parent."""
    is_parents = type(error).__name__ in ("NoNodeError", "NoChildrenForEphemeralsError")
    is_create = isinstance(operation, Create)
    return parent_of(operation.path) if is_create and is_parents else operation.path


async def _gather(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All are done when it returns or raises: nothing is left behind that nobody waits for."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
