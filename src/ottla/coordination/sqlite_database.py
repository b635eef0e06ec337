"""The tree, the sessions and the numbered changes in one SQLite file.

Everything here blocks and runs on one worker thread. It is an edge to the world, as
`SystemDisk` is: simulation replaces the whole store, not the file below it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

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
    Set,
    StoreUnusable,
    check_path,
    parent_of,
)
from ottla.coordination.wakeup import Wakeup, remove_leftover
from ottla.kernel.disk import Disk, Lock

_APPLICATION_ID = 0x4F54544C  # "OTTL"
_SCHEMA_VERSION = 1
_BUSY_TIMEOUT_S = 5.0
_OPEN_RETRY_S = 0.01

# Peers that fell further behind than this look at everything again.
CHANGES_KEPT = 10_000
_TRIM_EVERY = 1_000

_SCHEMA = (
    """CREATE TABLE nodes (
        path TEXT PRIMARY KEY, parent TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL,
        czxid INTEGER NOT NULL, owner INTEGER NOT NULL, next_sequence INTEGER NOT NULL)""",
    "CREATE INDEX nodes_by_parent ON nodes (parent, path)",
    "CREATE INDEX nodes_by_owner ON nodes (owner) WHERE owner != 0",
    # AUTOINCREMENT: numbers of trimmed changes and of past sessions are never given again.
    "CREATE TABLE changes (id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL,"
    " is_data INTEGER NOT NULL)",
    "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, boot_id TEXT NOT NULL,"
    " renewed_s REAL NOT NULL, timeout_ms INTEGER NOT NULL, owner TEXT NOT NULL)",
    "INSERT INTO nodes VALUES ('/', '', x'', 0, 0, 0, 0)",
)


class Change(NamedTuple):
    path: str
    is_data: bool
    """Data only; otherwise the node came or went."""


class Session(NamedTuple):
    id: int
    boot_id: str
    renewed_s: float
    timeout_ms: int


class Database:
    """Owned by `SqliteStore`, one for each session. A crash leaves what was committed, and a
    session row whose lock is free: the next one to look removes it with its nodes."""

    def __init__(
        self,
        path: str,
        disk: Disk,
        *,
        monotonic_s: Callable[[], float],
        boot_id: str,
        session_timeout_ms: int,
    ) -> None:
        self._path = path
        # Files beside the database, not in a folder: Apache Kafka, should it open this log dir
        # one day, takes every folder in it for a partition.
        self._session_prefix = path + ".session-"
        self._disk = disk
        self._monotonic_s = monotonic_s
        self._boot_id = boot_id
        self._session_timeout_ms = session_timeout_ms
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._lock: Lock | None = None
        self._seen_change_id = 0
        self._seen_data_version = 0
        # A third, so that one renewal may fail.
        self._renew_interval_s = session_timeout_ms / 3000
        self._renewed_s = 0.0
        self._ticked_s = 0.0
        self._judges_from_s = 0.0
        self.session_id = 0
        self.wakeup: Wakeup | None = None
        # Filled here, emptied on the loop; a deque's ends are safe for that.
        self.changes: deque[Change | None] = deque()
        """None: some were trimmed before they were seen here; anything may have changed."""

    # -- opening and closing ------------------------------------------------------------

    def open(self) -> None:
        deadline_s = self._monotonic_s() + _BUSY_TIMEOUT_S
        while True:
            try:
                return self._open()
            except ConnectionLost as error:
                # Two processes that make the file at the same moment collide while they turn
                # on WAL, where SQLite itself does not wait.
                self.abandon()
                if not _is_busy(error.__cause__) or self._monotonic_s() > deadline_s:
                    raise
                time.sleep(_OPEN_RETRY_S)
            except BaseException:
                self.abandon()
                raise

    def _open(self) -> None:
        with self._translated():
            # Calls come from one worker at a time, not always from the same thread.
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._connection = connection
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        with self._transaction() as cursor:
            self._check_schema(cursor)
            dead = [session.id for session in self._sessions(cursor) if self._is_gone(session)]
            for session_id in dead:
                self._remove_session(cursor, session_id)
            self._begin_session(cursor)
            self._see_all(cursor)
        self._identity = _identity(self._path)
        self._clean_up_after(dead)
        self.wakeup = Wakeup(self._session_prefix, self.session_id)
        if dead:
            self._wake_peers()

    def _check_schema(self, cursor: sqlite3.Cursor) -> None:
        application_id = cursor.execute("PRAGMA application_id").fetchone()[0]
        version = cursor.execute("PRAGMA user_version").fetchone()[0]
        if application_id == 0 and version == 0:
            if cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise StoreUnusable(
                    "", f"{self._path} is an SQLite database of something else; not touching it"
                )
            for statement in _SCHEMA:
                cursor.execute(statement)
            cursor.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            cursor.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")
        elif application_id != _APPLICATION_ID:
            raise StoreUnusable(
                "", f"{self._path} is an SQLite database of something else; not touching it"
            )
        elif version != _SCHEMA_VERSION:
            raise StoreUnusable(
                "",
                f"{self._path} has layout {version}, this version of Ottla knows"
                f" {_SCHEMA_VERSION}: run the version that wrote it",
            )

    def _begin_session(self, cursor: sqlite3.Cursor) -> None:
        self._renewed_s = self._ticked_s = self._monotonic_s()
        self._judges_from_s = self._renewed_s + self._renew_interval_s
        cursor.execute(
            "INSERT INTO sessions (boot_id, renewed_s, timeout_ms, owner) VALUES (?, ?, ?, ?)",
            (self._boot_id, self._renewed_s, self._session_timeout_ms, f"pid {os.getpid()}"),
        )
        assert cursor.lastrowid is not None
        self.session_id = cursor.lastrowid
        # Before the row can be seen, so that nobody finds it free. Never a lock on the
        # database file itself: closing any descriptor of that drops SQLite's own locks.
        self._lock = self._disk.lock(self._lock_path(self.session_id))
        assert self._lock is not None, f"the lock of new session {self.session_id} is taken"

    def close(self) -> None:
        try:
            with self._transaction() as cursor:
                self._remove_session(cursor, self.session_id)
            self._wake_peers()
        except (SessionExpired, ConnectionLost, StoreUnusable):
            pass  # It is over already, or will be found dead by its free lock.
        self.abandon()
        self._disk.remove(self._lock_path(self.session_id))

    def abandon(self) -> None:
        """Lets go of everything without a word, as a crash would."""
        if self.wakeup is not None:
            self.wakeup.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- reading ------------------------------------------------------------------------

    def get(self, path: str) -> Node:
        with self._translated():
            node = _node(self._cursor(), path)
        if node is None:
            raise NoNode(path)
        return node

    def get_many(self, paths: Sequence[str]) -> dict[str, Node]:
        with self._translated():
            cursor = self._cursor()
            found = ((path, _node(cursor, path)) for path in paths)
            return {path: node for path, node in found if node is not None}

    def exists(self, path: str) -> bool:
        with self._translated():
            return _node(self._cursor(), path) is not None

    def children(self, path: str) -> list[str]:
        with self._translated():
            rows = (
                self._cursor()
                .execute("SELECT path FROM nodes WHERE parent = ? ORDER BY path", (path,))
                .fetchall()
            )
        if not rows and not self.exists(path):
            raise NoNode(path)
        return [child[child.rindex("/") + 1 :] for (child,) in rows]

    def tree(self, path: str) -> dict[str, Node]:
        # "0" comes right after "/": so this is the range of every path below.
        below = "" if path == "/" else path
        with self._translated():
            rows = (
                self._cursor()
                .execute(
                    "SELECT path, data, version, czxid, owner FROM nodes"
                    " WHERE path > ? AND path < ? ORDER BY path",
                    (below + "/", below + "0"),
                )
                .fetchall()
            )
        return {row[0]: Node(*row[1:]) for row in rows}

    # -- writing ------------------------------------------------------------------------

    def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        for operation in operations:
            check_path(operation.path)
        with self._transaction() as cursor:
            self._check_session(cursor)
            results = [self._apply(cursor, operation) for operation in operations]
            self._trim(cursor)
        self._wake_peers()
        self._read_changes()
        return results

    def _apply(self, cursor: sqlite3.Cursor, operation: Operation) -> str | int | None:
        if isinstance(operation, Create):
            return self._create(cursor, operation)
        path = operation.path
        node = _node(cursor, path)
        if node is None:
            raise NoNode(path)
        if operation.version not in (ANY_VERSION, node.version):
            raise BadVersion(
                path, f"{path} is at version {node.version}, not at {operation.version}"
            )
        if isinstance(operation, Set):
            cursor.execute(
                "UPDATE nodes SET data = ?, version = version + 1 WHERE path = ?",
                (operation.data, path),
            )
            _record(cursor, path, is_data=True)
            return node.version + 1
        if isinstance(operation, Delete):
            if cursor.execute("SELECT 1 FROM nodes WHERE parent = ? LIMIT 1", (path,)).fetchone():
                raise NotEmpty(path)
            _delete(cursor, path)
            return None
        assert isinstance(operation, Check)
        return None

    def _create(self, cursor: sqlite3.Cursor, operation: Create) -> str:
        path = operation.path
        parent = parent_of(path)
        row = cursor.execute(
            "SELECT owner, next_sequence FROM nodes WHERE path = ?", (parent,)
        ).fetchone()
        if row is None:
            raise NoNode(parent, f"cannot create {path}: its parent is not there")
        owner, next_sequence = row
        if owner != NO_OWNER:
            raise NoChildrenForEphemerals(parent)
        if operation.sequential:
            path = f"{path}{next_sequence:0{SEQUENCE_DIGITS}d}"
            cursor.execute(
                "UPDATE nodes SET next_sequence = next_sequence + 1 WHERE path = ?", (parent,)
            )
        if _node(cursor, path) is not None:
            raise NodeExists(path)
        czxid = _record(cursor, path, is_data=False)
        cursor.execute(
            "INSERT INTO nodes VALUES (?, ?, ?, 0, ?, ?, 0)",
            (
                path,
                parent,
                operation.data,
                czxid,
                self.session_id if operation.ephemeral else NO_OWNER,
            ),
        )
        return path

    def _trim(self, cursor: sqlite3.Cursor) -> None:
        first, last = cursor.execute("SELECT min(id), max(id) FROM changes").fetchone()
        if first is not None and last - first >= CHANGES_KEPT + _TRIM_EVERY:
            cursor.execute("DELETE FROM changes WHERE id <= ?", (last - CHANGES_KEPT,))

    # -- changes of peers ---------------------------------------------------------------

    def tick(self) -> None:
        """The backstop, and the session's heartbeat: sees changes whose wake-up was lost,
        renews its own session, removes those of the dead.

        Whoever hung for a while itself, or could not write, cannot tell whether the others hang:
        the machine may have been asleep, or the file locked. It gives them the time to renew
        before it judges them. So does a newcomer."""
        self._check_identity()
        with self._translated():
            data_version = self._cursor().execute("PRAGMA data_version").fetchone()[0]
            sessions = self._sessions(self._cursor())
        if data_version != self._seen_data_version:
            self._seen_data_version = data_version
            self._read_changes()
        if self.session_id not in {session.id for session in sessions}:
            raise SessionExpired("", f"session {self.session_id} was ended by a peer")
        if self._monotonic_s() - self._renewed_s >= self._renew_interval_s:
            self._renew()
        now_s = self._monotonic_s()
        if now_s - self._ticked_s > self._renew_interval_s:
            self._judges_from_s = now_s + self._renew_interval_s
        self._ticked_s = now_s
        if any(session.id != self.session_id and self._is_dead(session) for session in sessions):
            self._expire_the_dead()

    def see_changes(self) -> None:
        self._check_identity()
        self._read_changes()

    def _read_changes(self) -> None:
        with self._translated():
            rows = (
                self._cursor()
                .execute(
                    "SELECT id, path, is_data FROM changes WHERE id > ? ORDER BY id",
                    (self._seen_change_id,),
                )
                .fetchall()
            )
        if not rows:
            return
        if rows[0][0] != self._seen_change_id + 1:
            self.changes.append(None)
        self.changes.extend(Change(path, bool(is_data)) for _, path, is_data in rows)
        self._seen_change_id = rows[-1][0]

    def _see_all(self, cursor: sqlite3.Cursor) -> None:
        """From here on only changes that are yet to come are told."""
        row = cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        self._seen_change_id = row[0] if row else 0

    # -- sessions -----------------------------------------------------------------------

    def _check_session(self, cursor: sqlite3.Cursor) -> None:
        if not cursor.execute("SELECT 1 FROM sessions WHERE id = ?", (self.session_id,)).fetchone():
            raise SessionExpired("", f"session {self.session_id} was ended by a peer")

    def _sessions(self, cursor: sqlite3.Cursor) -> list[Session]:
        return [
            Session(*row)
            for row in cursor.execute("SELECT id, boot_id, renewed_s, timeout_ms FROM sessions")
        ]

    def _is_dead(self, session: Session) -> bool:
        return self._is_gone(session) or self._hangs(session)

    def _hangs(self, session: Session) -> bool:
        """Its next write will find that its session is over."""
        now_s = self._monotonic_s()
        return (
            now_s >= self._judges_from_s and now_s - session.renewed_s > session.timeout_ms / 1000
        )

    def _is_gone(self, session: Session) -> bool:
        """Its process is, or the machine was started since."""
        if session.boot_id != self._boot_id:
            return True
        lock = self._disk.lock(self._lock_path(session.id))
        if lock is None:
            return False
        lock.release()
        return True

    def _expire_the_dead(self) -> None:
        with self._transaction() as cursor:
            self._check_session(cursor)
            dead = [
                session.id
                for session in self._sessions(cursor)
                if session.id != self.session_id and self._is_dead(session)
            ]
            for session_id in dead:
                self._remove_session(cursor, session_id)
        self._clean_up_after(dead)
        self._wake_peers()
        self._read_changes()

    def _remove_session(self, cursor: sqlite3.Cursor, session_id: int) -> None:
        for (path,) in cursor.execute(
            "SELECT path FROM nodes WHERE owner = ? AND owner != 0 ORDER BY path", (session_id,)
        ).fetchall():
            _delete(cursor, path)
        cursor.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _clean_up_after(self, dead: list[int]) -> None:
        for session_id in dead:
            self._disk.remove(self._lock_path(session_id))
            remove_leftover(self._session_prefix, session_id)

    def _renew(self) -> None:
        renewed_s = self._monotonic_s()
        # A lease means nothing after a power cut, so it need not wait for the disk.
        with self._translated():
            self._cursor().execute("PRAGMA synchronous=NORMAL")
        try:
            with self._transaction() as cursor:
                self._check_session(cursor)
                cursor.execute(
                    "UPDATE sessions SET renewed_s = ? WHERE id = ?", (renewed_s, self.session_id)
                )
        finally:
            self._cursor().execute("PRAGMA synchronous=FULL")
        self._renewed_s = renewed_s

    def _lock_path(self, session_id: int) -> str:
        return f"{self._session_prefix}{session_id}.lock"

    def _wake_peers(self) -> None:
        assert self.wakeup is not None
        with self._translated():
            rows = self._cursor().execute(
                "SELECT id FROM sessions WHERE id != ?", (self.session_id,)
            )
            self.wakeup.wake([row[0] for row in rows])

    # -- the file -----------------------------------------------------------------------

    def _cursor(self) -> sqlite3.Cursor:
        if self._connection is None:
            raise SessionExpired("", "the store is closed")
        return self._connection.cursor()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        if self._identity != (0, 0):
            self._check_identity()
        with self._translated():
            cursor = self._cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if cursor.connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            # Locked for too long, disk full, I/O error: it may pass.
            raise ConnectionLost("", f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreUnusable(
                "",
                f"{self._path} is damaged ({error}). It holds the topics, their ids and settings:"
                " restore it from a copy. If it is removed, topics are taken over from their"
                " logs, with default settings",
            ) from error

    def _check_identity(self) -> None:
        """SQLite goes on in a file that was deleted, where nobody else sees it, while others
        would make a new one: two clusters in one place."""
        try:
            identity = _identity(self._path)
        except FileNotFoundError:
            identity = (0, 0)
        if identity != self._identity:
            raise StoreUnusable(
                "", f"{self._path} was deleted or replaced while in use: stop this broker"
            )


def _is_busy(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def _identity(path: str) -> tuple[int, int]:
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def _node(cursor: sqlite3.Cursor, path: str) -> Node | None:
    row = cursor.execute(
        "SELECT data, version, czxid, owner FROM nodes WHERE path = ?", (path,)
    ).fetchone()
    return Node(*row) if row else None


def _record(cursor: sqlite3.Cursor, path: str, *, is_data: bool) -> int:
    cursor.execute("INSERT INTO changes (path, is_data) VALUES (?, ?)", (path, is_data))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _delete(cursor: sqlite3.Cursor, path: str) -> None:
    cursor.execute("DELETE FROM nodes WHERE path = ?", (path,))
    _record(cursor, path, is_data=False)
