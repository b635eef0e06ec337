"""A process that stands still (SIGSTOP, a hung disk) in the middle of a write to the shared store
keeps SQLite's write lock. Nobody else can write then, and so nobody can end its session either: the
whole cluster stands still with it. Whoever has started it can end it.

This asks the system who has the lock, and does not open the database: it would read the lock of a
transaction by itself, and it needs no SQLite.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

# SQLite's WAL mode locks bytes of PATH-shm: this one is the writer's. At the file's beginning is a
# header that every commit changes. https://www.sqlite.org/walformat.html
_WRITE_LOCK_BYTE = 120
_HEADER_BYTES = 48

_FLOCK = "qqihh" if sys.platform == "darwin" else "hhqqi"
"""struct flock: its fields are in another order there."""


def lock_holder(path: str) -> int | None:
    """The process that has the write lock of an SQLite file; None where nobody has."""
    try:
        descriptor = os.open(f"{path}-shm", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None  # Nobody has the database open.
    try:
        return _holder(descriptor)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> int | None:
    kind, whence, start, length = fcntl.F_WRLCK, os.SEEK_SET, _WRITE_LOCK_BYTE, 1
    if sys.platform == "darwin":
        asked = struct.pack(_FLOCK, start, length, 0, kind, whence)
        _, _, pid, kind, _ = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    else:
        asked = struct.pack(_FLOCK, kind, whence, start, length, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _commits(path: str) -> bytes:
    try:
        with open(f"{path}-shm", "rb", buffering=0) as file:
            return file.read(_HEADER_BYTES)
    except OSError:
        return b""


class StuckWriter:
    """Owned by the supervisor, who lets it look about once a second."""

    def __init__(self, path: str, session_timeout_s: float) -> None:
        self._path = path
        self._session_timeout_s = session_timeout_s
        self._state: tuple[int | None, bytes] = (None, b"")
        self._since_s = 0.0
        self._looked_s = 0.0

    def look(self, now_s: float) -> int | None:
        """The process that has had the lock for longer than a session lasts, without a commit."""
        state = (lock_holder(self._path), _commits(self._path))
        # Who has not looked for long cannot tell: it was the supervisor that stood still, perhaps
        # together with all others.
        is_late = now_s - self._looked_s > self._session_timeout_s / 2
        self._looked_s = now_s
        if state != self._state or is_late:
            self._state, self._since_s = state, now_s
        holder, _ = state
        is_over = now_s - self._since_s > self._session_timeout_s
        return holder if holder is not None and is_over else None
