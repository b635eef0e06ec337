"""A coordination store in memory, for simulation: deterministic, and with faults to order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Protocol

from ottla.coordination.single_operations import SingleOperations
from ottla.coordination.store import (
    ANY_VERSION,
    NO_OWNER,
    SEQUENCE_DIGITS,
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    SessionState,
    Set,
    Watch,
    check_path,
    parent_of,
)
from ottla.coordination.watches import Watches


@dataclass(slots=True)
class _Entry:
    node: Node
    next_sequence: int = 0
    children: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Transaction:
    """What one `multi` did so far, and how to take it back."""

    undo: list[Callable[[], None]] = field(default_factory=list)
    changes: list[tuple[str, bool]] = field(default_factory=list)
    """(path, whether only its data changed)"""


Changes = Sequence[tuple[str, bool]]
"""(path, whether only its data changed)"""


class Hearer(Protocol):
    """A session's other end."""

    def hear(self, changes: Changes) -> None: ...


class MemoryEnsemble:
    """The tree that the stores of a simulated cluster share. Outlives them all."""

    def __init__(self) -> None:
        self._entries = {"/": _Entry(Node(b"", 0, 0, NO_OWNER))}
        self._zxid = 0
        self._last_session_id = 0
        self._sessions: dict[int, Hearer] = {}
        self.lost_answer_count = 0
        """Of writes to remote stores."""

    # -- faults -------------------------------------------------------------------------

    def expire(self, store: MemoryStore) -> None:
        """Ends the session as if the store had not heard from it for too long."""
        self.end_session(store.session_id)
        store._become(SessionState.EXPIRED)

    def end_session(self, session_id: int) -> None:
        """Nobody hears of it but those who watch its nodes."""
        if session_id in self._sessions:
            self._end_session(session_id)

    def disconnect(self, store: MemoryStore) -> None:
        """From now on every call raises `ConnectionLost`; the session lives on."""
        store._become(SessionState.SUSPENDED)

    def reconnect(self, store: MemoryStore) -> None:
        store._become(SessionState.CONNECTED)
        store._look_everywhere()

    def lose_next_answer(self, store: MemoryStore) -> None:
        """The next write happens, but whoever asked for it hears `ConnectionLost`."""
        store._is_answer_lost = True

    def delete(self, path: str) -> None:
        """As somebody does who is not of the cluster."""
        self.multi(NO_OWNER, [Delete(path)])

    # -- sessions -----------------------------------------------------------------------

    def begin_session(self, hearer: Hearer) -> int:
        self._last_session_id += 1
        self._sessions[self._last_session_id] = hearer
        return self._last_session_id

    def has_session(self, session_id: int) -> bool:
        return session_id in self._sessions

    def _end_session(self, session_id: int) -> None:
        del self._sessions[session_id]
        transaction = _Transaction()
        for path in sorted(self._entries):
            if self._entries[path].node.ephemeral_owner == session_id:
                self._remove(transaction, path)
        self._announce(transaction)

    # -- the tree -----------------------------------------------------------------------

    def get(self, path: str) -> Node:
        return self._entry(path).node

    def exists(self, path: str) -> bool:
        return path in self._entries

    def children(self, path: str) -> list[str]:
        return sorted(self._entry(path).children)

    def tree(self, path: str) -> dict[str, Node]:
        below = path.rstrip("/") + "/"
        return {
            each: self._entries[each].node
            for each in sorted(self._entries)
            if each.startswith(below) and each != "/"
        }

    def multi(self, session_id: int, operations: Sequence[Operation]) -> list[str | int | None]:
        transaction = _Transaction()
        try:
            results = [self._apply(transaction, session_id, each) for each in operations]
        except Exception:
            for undo in reversed(transaction.undo):
                undo()
            raise
        self._announce(transaction)
        return results

    def _entry(self, path: str) -> _Entry:
        if path not in self._entries:
            raise NoNode(path)
        return self._entries[path]

    def _apply(
        self, transaction: _Transaction, session_id: int, operation: Operation
    ) -> str | int | None:
        if isinstance(operation, Create):
            return self._create(transaction, session_id, operation)
        entry = self._entry(operation.path)
        if operation.version not in (ANY_VERSION, entry.node.version):
            raise BadVersion(operation.path)
        if isinstance(operation, Set):
            old = entry.node
            entry.node = old._replace(data=operation.data, version=old.version + 1)
            transaction.undo.append(lambda: setattr(entry, "node", old))
            transaction.changes.append((operation.path, True))
            self._zxid += 1
            return entry.node.version
        if isinstance(operation, Delete):
            if entry.children:
                raise NotEmpty(operation.path)
            self._remove(transaction, operation.path)
            return None
        assert isinstance(operation, Check)
        return None

    def _create(self, transaction: _Transaction, session_id: int, operation: Create) -> str:
        path = operation.path
        parent = self._entry(parent_of(path))
        if parent.node.ephemeral_owner != NO_OWNER:
            raise NoChildrenForEphemerals(parent_of(path))
        if operation.sequential:
            path = f"{path}{parent.next_sequence:0{SEQUENCE_DIGITS}d}"
            parent.next_sequence += 1
        if path in self._entries:
            raise NodeExists(path)
        self._zxid += 1
        owner = session_id if operation.ephemeral else NO_OWNER
        self._entries[path] = _Entry(Node(operation.data, 0, self._zxid, owner))
        parent.children[_name(path)] = None

        def undo() -> None:
            del self._entries[path]
            del parent.children[_name(path)]
            if operation.sequential:
                parent.next_sequence -= 1

        transaction.undo.append(undo)
        transaction.changes.append((path, False))
        return path

    def _remove(self, transaction: _Transaction, path: str) -> None:
        entry = self._entries.pop(path)
        siblings = self._entries[parent_of(path)].children
        del siblings[_name(path)]
        self._zxid += 1

        def undo() -> None:
            self._entries[path] = entry
            siblings[_name(path)] = None

        transaction.undo.append(undo)
        transaction.changes.append((path, False))

    def _announce(self, transaction: _Transaction) -> None:
        for hearer in list(self._sessions.values()):
            hearer.hear(transaction.changes)


def _name(path: str) -> str:
    return path[path.rindex("/") + 1 :]


def mark(watches: Watches, changes: Changes) -> None:
    for path, is_data in changes:
        if is_data:
            watches.mark_data(path)
        else:
            watches.mark_existence(path)


class MemoryStore(SingleOperations):
    """One session with an ensemble. Every call gives way to the loop once, as a real one would."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble
        self._watches = Watches()
        self._state: SessionState | None = None
        self._session_callbacks: list[Callable[[SessionState], None]] = []
        self._is_answer_lost = False
        self._context = Context()
        self.session_id = 0

    async def open(self) -> None:
        assert self._state in (None, SessionState.EXPIRED), "opened twice"
        await asyncio.sleep(0)
        self._context = copy_context()  # Of the process: whatever it hears, it hears there.
        self.session_id = self._ensemble.begin_session(self)
        self._become(SessionState.CONNECTED)
        self._look_everywhere()

    async def close(self) -> None:
        await asyncio.sleep(0)
        if self._state not in (None, SessionState.EXPIRED):
            self._ensemble._end_session(self.session_id)
        self._state = None

    async def get(self, path: str) -> Node:
        await self._reach(path)
        return self._ensemble.get(path)

    async def get_many(self, paths: Sequence[str]) -> dict[str, Node]:
        await self._reach(*paths)
        return {path: self._ensemble.get(path) for path in paths if self._ensemble.exists(path)}

    async def exists(self, path: str) -> bool:
        await self._reach(path)
        return self._ensemble.exists(path)

    async def children(self, path: str) -> list[str]:
        await self._reach(path)
        return self._ensemble.children(path)

    async def tree(self, path: str) -> dict[str, Node]:
        await self._reach(path)
        return self._ensemble.tree(path)

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        await self._reach(*(operation.path for operation in operations))
        results = self._ensemble.multi(self.session_id, operations)
        await asyncio.sleep(0)  # Watches are called before the writer goes on.
        if self._is_answer_lost:
            self._is_answer_lost = False
            raise ConnectionLost("", "the answer was lost, as ordered")
        return results

    async def watch_node(self, path: str, callback: Callable[[], None]) -> Watch:
        await self._reach(path)
        return self._watches.add_node(path, callback)

    async def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        await self._reach(path)
        return self._watches.add_children(path, callback)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session_callbacks.append(callback)

    async def _reach(self, *paths: str) -> None:
        for path in paths:
            check_path(path)
        await asyncio.sleep(0)
        if self._state in (None, SessionState.EXPIRED):
            raise SessionExpired("", "there is no session: open the store first")
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("", "disconnected, as ordered")

    def hear(self, changes: Changes) -> None:
        if self._state is SessionState.CONNECTED:
            mark(self._watches, changes)
            self._context.run(self._watches.call_marked)

    def _look_everywhere(self) -> None:
        self._watches.mark_all()
        self._watches.call_marked()

    def _become(self, state: SessionState) -> None:
        if self._state is state:
            return
        self._state = state
        for callback in list(self._session_callbacks):
            callback(state)
