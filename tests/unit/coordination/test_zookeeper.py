"""What needs no server. What every store promises is in tests/contract/coordination."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordination.store import SessionExpired
from ottla.coordination.zookeeper import ZooKeeperStore


def test_before_it_is_opened_there_is_no_session() -> None:
    async def main() -> None:
        store = ZooKeeperStore("localhost:2181")
        assert store.session_id == 0
        with pytest.raises(SessionExpired, match="open the store first"):
            await store.get("/")
        with pytest.raises(SessionExpired):
            await store.watch_node("/", print)
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("connect", "root", "child"),
    [
        ("a:1,b:2", "/", "/x"),
        ("a:1/", "/", "/x"),
        ("a:1,b:2/kafka", "/kafka", "/kafka/x"),
        ("a:1/k/l/", "/k/l", "/k/l/x"),
    ],
)
def test_paths_are_below_the_chroot(connect: str, root: str, child: str) -> None:
    store = ZooKeeperStore(connect)
    assert (store._full("/"), store._full("/x")) == (root, child)
    assert (store._local(root), store._local(child)) == ("/", "/x")
