"""The interface to the coordination store: a small tree of nodes, shaped like ZooKeeper.

What every implementation guarantees (the contract suite holds them to it):

- A path is `/` or `/a/b/c`. A node has data, a version that starts at 0 and grows by one
  with each `set`, and `czxid`, the number of the change that made it: a later creation has a
  greater one, so that it can serve as an epoch. Nodes of one `multi` may share it.
- Writes are in one order for all sessions. `multi` happens whole or not at all.
- A write that raised `ConnectionLost` may or may not have happened; whoever must know reads
  again. Any other error means that nothing was written.
- An ephemeral node belongs to the session that created it, and goes with it.
- A watch is called at least once after each change that was committed after `watch_...`
  returned. Several changes may come as one call, and a call may come without a change (after
  a reconnection, say). A read begun inside the call sees the change. So a watch only says
  "look again": it is the strongest promise that ZooKeeper's one-shot watches, set anew after
  each event, can keep.
- A session that has expired stays so: every call raises `SessionExpired` until `open` begins
  a new session. Nothing is written under a new session by someone who still believes in the
  old one. Watches stay, and are called once when the new session has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1
NO_OWNER = 0

SEQUENCE_DIGITS = 10


class StoreError(Exception):
    """Something about one node, or about the store when the path is empty."""

    def __init__(self, path: str = "", message: str | None = None) -> None:
        super().__init__(message or f"{type(self).__name__}: {path}")
        self.path = path


class NoNode(StoreError):
    """The node, or for `create` its parent, is not there."""


class NodeExists(StoreError):
    pass


class BadVersion(StoreError):
    pass


class NotEmpty(StoreError):
    """A node with children cannot be deleted."""


class NoChildrenForEphemerals(StoreError):
    pass


class TooLarge(StoreError):
    """More than the store takes at once; `in_batches` splits it. SQLite takes any size."""


class SessionExpired(StoreError):
    """This session is over and its ephemeral nodes are gone."""


class ConnectionLost(StoreError):
    """The store cannot be reached now. A write may or may not have happened."""


class StoreUnusable(StoreError):
    """What is there is no store of ours, or a damaged one. Needs a person."""


class Node(NamedTuple):
    data: bytes
    version: int
    czxid: int
    ephemeral_owner: int
    """The session that the node goes with; `NO_OWNER` for a persistent one."""


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Writes nothing; the `multi` fails unless the node is there with this version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The store cannot be reached; the session may still live."""
    EXPIRED = "expired"


class Watch(Protocol):
    def cancel(self) -> None: ...


class Store(Protocol):
    """One session with the store. Used on the loop only."""

    @property
    def session_id(self) -> int: ...

    async def open(self) -> None:
        """Begins a session; again after the last one has expired."""
        ...

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
        ...

    async def get(self, path: str) -> Node: ...

    async def get_many(self, paths: Sequence[str]) -> dict[str, Node]:
        """Those that are there. For loading: each as it was at some time during the call."""
        ...

    async def exists(self, path: str) -> bool: ...

    async def children(self, path: str) -> list[str]:
        """Names, sorted."""
        ...

    async def tree(self, path: str) -> dict[str, Node]:
        """Every node below the path (not the node itself), by full path, parents before
        children. For loading: nodes that change meanwhile may be seen before or after."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Returns the path made. `sequential` appends ten digits that grow with each such
        child of the parent."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Returns the new version."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """All or nothing, in order, each seeing those before it. Returns the path for a
        `Create`, the new version for a `Set`, else None. Raises the first error; its `path`
        says where."""
        ...

    async def watch_node(self, path: str, callback: Callable[[], None]) -> Watch:
        """For creation, deletion and data of one node. It need not exist yet."""
        ...

    async def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        """For children coming and going; not for their data."""
        ...

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        """Called with every state from now on."""
        ...


BATCH_BYTES_MAX = 512 * 1024
"""Half of what ZooKeeper takes in one request."""

_OPERATION_BYTES = 64
"""What a request has for each operation besides its path and data, at most."""


def size_bytes(operations: Iterable[Operation]) -> int:
    """About what they take in a request."""
    return sum(
        _OPERATION_BYTES + len(each.path.encode()) + len(getattr(each, "data", b""))
        for each in operations
    )


def in_batches(operations: Iterable[Operation], check: Check) -> Iterator[list[Operation]]:
    """For a `multi` each, when they are too many for one. Each begins with `check`, so that none of
    them happens any more once that fails. Whoever is cut off between two must be able to tell, from
    what is there, where to go on."""
    batch: list[Operation] = [check]
    size = size_bytes(batch)
    for operation in operations:
        operation_size = size_bytes([operation])
        if size + operation_size > BATCH_BYTES_MAX and len(batch) > 1:
            yield batch
            batch = [check]
            size = size_bytes(batch)
        batch.append(operation)
        size += operation_size
    if len(batch) > 1:
        yield batch


def parent_of(path: str) -> str:
    """The parent's path; of `/a` that is `/`."""
    return path[: path.rindex("/")] or "/"


def check_path(path: str) -> None:
    """A path is written by our own code, so a bad one is a broken invariant."""
    if path == "/":
        return
    parts = path.split("/")
    assert path.startswith("/"), f"path {path!r} is not absolute"
    assert all(part not in ("", ".", "..") for part in parts[1:]), f"bad path {path!r}"


def with_parents(path: str) -> list[str]:
    """`/a/b/c` gives `/a`, `/a/b`, `/a/b/c`: what there must be, in the order of making it."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
