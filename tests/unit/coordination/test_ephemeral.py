"""With a store in memory. tests/contract has the same with real ones, and with lost answers."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordination.ephemeral import create_ephemeral
from ottla.coordination.store import NodeExists
from ottla.testing.store import MemoryEnsemble, MemoryStore


async def two_stores() -> tuple[MemoryStore, MemoryStore]:
    ensemble = MemoryEnsemble()
    one, other = MemoryStore(ensemble), MemoryStore(ensemble)
    await one.open()
    await other.open()
    return one, other


def test_made_twice_it_is_the_same() -> None:
    async def main() -> None:
        store, _ = await two_stores()
        first = await create_ephemeral(store, "/a", b"x")
        assert await create_ephemeral(store, "/a", b"x") == first

    asyncio.run(main())


def test_a_persistent_node_is_nobodys() -> None:
    async def main() -> None:
        store, other = await two_stores()
        await other.create("/a")
        with pytest.raises(NodeExists):
            await create_ephemeral(store, "/a", b"x")

    asyncio.run(main())


def test_a_leftover_that_somebody_else_takes_meanwhile_is_not_waited_for() -> None:
    async def main() -> None:
        store, other = await two_stores()
        await other.create("/a", b"me", ephemeral=True)
        making = asyncio.ensure_future(
            create_ephemeral(store, "/a", b"me", is_leftover=lambda data: data == b"me")
        )
        for _ in range(10):
            await asyncio.sleep(0)
        await other.set("/a", b"another")
        with pytest.raises(NodeExists):
            await making

    asyncio.run(main())
