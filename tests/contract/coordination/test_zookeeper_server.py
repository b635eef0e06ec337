"""What a store does when the ZooKeeper server is away, hangs, or is not there at all."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.coordination.store import (
    ConnectionLost,
    Create,
    Node,
    SessionExpired,
    SessionState,
    Set,
    Store,
    TooLarge,
)
from ottla.coordination.zookeeper import ZooKeeperStore
from tests.contract.coordination.backends import ZooKeeperBackend, state_of
from tests.support.zookeeper_process import ZooKeeperProcess


@pytest.fixture
def backend(zookeeper: ZooKeeperProcess) -> ZooKeeperBackend:
    return ZooKeeperBackend(zookeeper.address)


@contextmanager
def hanging(zookeeper: ZooKeeperProcess) -> Iterator[None]:
    zookeeper.signal_java(signal.SIGSTOP)
    try:
        yield
    finally:
        zookeeper.signal_java(signal.SIGCONT)


def test_a_session_outlives_its_server(
    backend: ZooKeeperBackend, zookeeper: ZooKeeperProcess
) -> None:
    async def scenario() -> None:
        store, writer = await backend.open_store(), await backend.open_store()
        states: list[SessionState] = []
        store.on_session(states.append)
        await store.create("/mine", ephemeral=True)
        heard = asyncio.Event()
        await store.watch_node("/later", heard.set)
        session_id = store.session_id
        await asyncio.to_thread(zookeeper.kill)
        await state_of(store, SessionState.SUSPENDED)
        with pytest.raises(ConnectionLost, match="not connected to ZooKeeper at 127"):
            await store.get("/mine")
        await asyncio.to_thread(zookeeper.start)
        await state_of(store, SessionState.CONNECTED)
        assert store.session_id == session_id
        assert (await store.get("/mine")).ephemeral_owner == session_id
        await state_of(writer, SessionState.CONNECTED)
        heard.clear()
        await writer.create("/later")
        await heard.wait()
        assert set(states) == {SessionState.SUSPENDED, SessionState.CONNECTED}

    backend.run(scenario)


async def in_the_middle_of_a_large_read(
    backend: ZooKeeperBackend, store: Store
) -> asyncio.Task[dict[str, Node]]:
    await store.create("/states")
    await store.multi([Create(f"/states/{number}") for number in range(300)])
    proxy = backend.proxy_of(store)
    before = proxy.answer_count
    reading = asyncio.ensure_future(store.tree("/states"))
    while proxy.answer_count < before + 100:
        await asyncio.sleep(0)
    return reading


def test_a_large_read_goes_on_after_the_connection_was_lost(backend: ZooKeeperBackend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        reading = await in_the_middle_of_a_large_read(backend, store)
        await backend.cut_off(store)
        assert not reading.done()
        await backend.heal(store)
        assert len(await reading) == 300

    backend.run(scenario)


def test_a_read_without_a_connection_ends_with_the_session(backend: ZooKeeperBackend) -> None:
    async def scenario() -> None:
        store = await backend.open_store(session_timeout_ms=4_000)
        reading = await in_the_middle_of_a_large_read(backend, store)
        await backend.cut_off(store)
        with pytest.raises(ConnectionLost):
            await reading

    backend.run(scenario)


def test_a_connection_that_is_not_answered_does_not_cost_the_session(
    backend: ZooKeeperBackend,
) -> None:
    async def scenario() -> None:
        store = await backend.open_store(session_timeout_ms=8_000)
        await store.create("/mine", ephemeral=True)
        session_id = store.session_id
        await backend.cut_off(store)
        backend.proxy_of(store).keep_silent_once()
        await backend.heal(store)
        assert store.session_id == session_id
        assert await store.exists("/mine")

    backend.run(scenario)


def test_a_server_that_hangs_suspends_the_session(
    backend: ZooKeeperBackend, zookeeper: ZooKeeperProcess
) -> None:
    async def scenario() -> None:
        store = await backend.open_store(session_timeout_ms=4_000)
        assert isinstance(store, ZooKeeperStore)
        await store.create("/a")
        with hanging(zookeeper):
            with pytest.raises(ConnectionLost):
                await store.set("/a", b"x")
            with pytest.raises(ConnectionLost):
                await store.get("/a")
            leaving = await asyncio.wait_for(_open_and_close(backend), 30)
            assert "no ZooKeeper has answered at" in leaving
        while store._opened().state is SessionState.SUSPENDED:
            await asyncio.sleep(0.01)
        if store._opened().state is SessionState.EXPIRED:
            await store.open()
        assert await store.exists("/a")

    backend.run(scenario)


async def _open_and_close(backend: ZooKeeperBackend) -> str:
    store = ZooKeeperStore(backend.path, connection_timeout_ms=500)
    with pytest.raises(ConnectionLost) as caught:
        await store.open()
    with pytest.raises(SessionExpired):
        await store.get("/")
    await store.close()
    return str(caught.value)


def test_leaving_a_server_that_hangs_takes_a_moment_only(
    backend: ZooKeeperBackend, zookeeper: ZooKeeperProcess
) -> None:
    async def scenario() -> None:
        store = await backend.open_store()  # A session of 30 s, for which kazoo would wait.
        with hanging(zookeeper):
            async with asyncio.timeout(15):
                await store.close()
            with pytest.raises(SessionExpired):
                await store.exists("/")

    backend.run(scenario)


def test_where_nobody_listens_the_address_is_named() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        store = ZooKeeperStore(f"127.0.0.1:{port}/chroot", connection_timeout_ms=300)
        with pytest.raises(ConnectionLost, match=f"at 127.0.0.1:{port} for 0.3 s"):
            await store.open()

    asyncio.run(scenario())


def test_a_write_that_the_server_would_hang_up_on_is_not_sent(backend: ZooKeeperBackend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        states: list[SessionState] = []
        store.on_session(states.append)
        await store.create("/a")
        with pytest.raises(TooLarge):
            await store.multi([Set("/a", bytes(600_000)), Set("/a", bytes(600_000))])
        await store.set("/a", bytes(900_000))
        assert len((await store.get("/a")).data) == 900_000
        assert states == []

    backend.run(scenario)


def test_without_a_chroot_zookeepers_own_nodes_are_left_out(zookeeper: ZooKeeperProcess) -> None:
    async def scenario() -> None:
        store = ZooKeeperStore(zookeeper.address)
        await store.open()
        try:
            assert "zookeeper" in await store.children("/")
            tree = await store.tree("/")
            assert [path for path in tree if path.startswith("/zookeeper")] == []
        finally:
            await store.close()

    asyncio.run(scenario())
