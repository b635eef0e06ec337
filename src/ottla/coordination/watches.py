"""Who wants to hear about which node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, KeysView

from ottla.coordination.store import parent_of


class _Watch:
    __slots__ = ("_callback", "_path", "_watches")

    def __init__(
        self, watches: dict[str, list[_Watch]], path: str, callback: Callable[[], None]
    ) -> None:
        self._watches = watches
        self._path = path
        self._callback: Callable[[], None] | None = callback
        watches.setdefault(path, []).append(self)

    def cancel(self) -> None:
        if self._callback is None:
            return
        self._callback = None
        siblings = self._watches[self._path]
        siblings.remove(self)
        if not siblings:
            del self._watches[self._path]

    def call(self) -> None:
        if self._callback is not None:
            self._callback()


class Watches:
    """Owned by a store, over all its sessions. Changes are marked first and then called, so
    that many changes of one node are one call."""

    def __init__(self) -> None:
        self._node: dict[str, list[_Watch]] = {}
        self._children: dict[str, list[_Watch]] = {}
        # A dict for its order: calls come in the order of the changes, whatever the hash seed.
        self._marked: dict[_Watch, None] = {}

    def add_node(self, path: str, callback: Callable[[], None]) -> _Watch:
        return _Watch(self._node, path, callback)

    def add_children(self, path: str, callback: Callable[[], None]) -> _Watch:
        return _Watch(self._children, path, callback)

    def node_paths(self) -> KeysView[str]:
        """Of the nodes that somebody watches."""
        return self._node.keys()

    def children_paths(self) -> KeysView[str]:
        return self._children.keys()

    def mark_data(self, path: str) -> None:
        if siblings := self._node.get(path):
            self._marked.update(dict.fromkeys(siblings))

    def mark_children(self, path: str) -> None:
        if siblings := self._children.get(path):
            self._marked.update(dict.fromkeys(siblings))

    def mark_existence(self, path: str) -> None:
        self.mark_data(path)
        if self._children:  # Of the many paths of a large topic hardly any is watched.
            self.mark_children(path)
            if path != "/":
                self.mark_children(parent_of(path))

    def mark_all(self) -> None:
        for watches in (self._node, self._children):
            for siblings in watches.values():
                self._marked.update(dict.fromkeys(siblings))

    def call_marked(self) -> None:
        """Each on a turn of the loop of its own, before whoever waits for the write goes on."""
        marked, self._marked = self._marked, {}
        if marked:
            loop = asyncio.get_running_loop()
            for watch in marked:
                loop.call_soon(watch.call)
