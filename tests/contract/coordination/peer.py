"""A process with a session of its own. Reads calls as JSON lines, `["set", "/a", "text", 0]`, and
answers each with one line, `{"result": ...}` or `{"error": "BadVersion"}`. `["watch", path]` makes
it write `{"changed": path}` from then on, `["states", ""]` `{"state": "expired"}` and the like;
`["stand_still", ""]` holds up its loop until the next line, and nothing else of it.

    python peer.py sqlite PATH [SESSION_TIMEOUT_MS]
    python peer.py zookeeper HOST:PORT/CHROOT [SESSION_TIMEOUT_MS]
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from ottla.coordination.sqlite import SqliteStore
from ottla.coordination.store import Store, StoreError
from ottla.kernel.clock import SystemClock
from ottla.kernel.disk import SystemDisk
from ottla.kernel.workers import ThreadWorkers


def say(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


async def obey(store: Store, method: str, path: str, *args: Any) -> Any:
    match method:
        case "watch":
            await store.watch_node(path, lambda: say({"changed": path}))
            await store.watch_children(path, lambda: say({"changed": path}))
            return None
        case "states":
            store.on_session(lambda state: say({"state": state.value}))
            return None
        case "create":
            return await store.create(path, args[0].encode(), ephemeral=args[1])
        case "set":
            return await store.set(path, args[0].encode(), args[1])
        case "get":
            return (await store.get(path)).data.decode()
        case "stand_still":
            say({"result": None})
            sys.stdin.readline()
            return None
        case "increment":  # Until it has won, as anybody would who counts together with others.
            for _ in range(args[0]):
                while not await try_to_increment(store, path):
                    pass
            return None
    raise AssertionError(method)


async def try_to_increment(store: Store, path: str) -> bool:
    node = await store.get(path)
    try:
        await store.set(path, str(int(node.data) + 1).encode(), node.version)
    except StoreError:
        return False
    return True


def new_store(kind: str, path: str, timeout_ms: int, workers: ThreadWorkers) -> Store:
    if kind == "sqlite":
        return SqliteStore(
            path,
            clock=SystemClock(),
            disk=SystemDisk(),
            workers=workers,
            session_timeout_ms=timeout_ms or 18_000,
        )
    from ottla.coordination.zookeeper import ZooKeeperStore

    return ZooKeeperStore(path, session_timeout_ms=timeout_ms or 4_000)


async def main(kind: str, path: str, timeout_ms: str = "0") -> None:
    workers = ThreadWorkers()
    store = new_store(kind, path, int(timeout_ms), workers)
    await store.open()
    say({"result": store.session_id})
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            say({"result": await obey(store, *json.loads(line))})
        except StoreError as error:
            say({"error": type(error).__name__})
    await store.close()
    workers.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
