"""Making an ephemeral node that is one's own: a broker's place, say.

`create` alone is not enough. Its answer may be lost though the node was made: then the node belongs
to this session. And after a crash, the node of the session before stays until that has timed out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.coordination.store import Node, NodeExists, NoNode, Store

_logger = logging.getLogger(__name__)


async def create_ephemeral(
    store: Store,
    path: str,
    data: bytes,
    *,
    is_leftover: Callable[[bytes], bool] = lambda data: False,
    leftover_timeout_s: float = 0,
) -> Node:
    """Returns the node, which belongs to the store's session. Raises `NodeExists` when it is
    somebody else's. One whose data `is_leftover` of an earlier session of the caller is waited for,
    until it goes with its session, for `leftover_timeout_s` at most. After `ConnectionLost` it may
    be called again: it finds what it has made."""
    try:
        async with asyncio.timeout(leftover_timeout_s or None):
            while (node := await _try_to_create(store, path, data)) is None:
                await _wait_until_gone(store, path, is_leftover)
            return node
    except TimeoutError as error:
        raise NodeExists(path, f"{path} is still there after {leftover_timeout_s:g} s") from error


async def _try_to_create(store: Store, path: str, data: bytes) -> Node | None:
    """None when it is another session's."""
    try:
        await store.create(path, data, ephemeral=True)
    except NodeExists:
        pass
    try:
        node = await store.get(path)
    except NoNode:
        return None
    return node if node.ephemeral_owner == store.session_id else None


async def _wait_until_gone(store: Store, path: str, is_leftover: Callable[[bytes], bool]) -> None:
    changed = asyncio.Event()
    watch = await store.watch_node(path, changed.set)
    try:
        node = await store.get(path)
        if not is_leftover(node.data):
            raise NodeExists(path)
        _logger.warning("waiting for %s to go, with the session that it was left by", path)
        await changed.wait()
    except NoNode:
        pass
    finally:
        watch.cancel()
