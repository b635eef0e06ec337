"""What every coordination store promises when things go wrong: lost answers, lost sessions, owners
that were away."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.coordination.ephemeral import create_ephemeral
from ottla.coordination.store import (
    Check,
    ConnectionLost,
    Create,
    NodeExists,
    Operation,
    SessionExpired,
    SessionState,
    Store,
    in_batches,
)
from tests.contract.coordination.backends import (
    Backend,
    SharedBackend,
    SqliteBackend,
    ZooKeeperBackend,
)
from tests.contract.coordination.peers import Peer, Peers


@pytest.fixture(params=["sqlite", "zookeeper"])
def shared_backend(request: pytest.FixtureRequest, tmp_path: Path) -> SharedBackend:
    if request.param == "sqlite":
        return SqliteBackend(tmp_path)
    return ZooKeeperBackend(request.getfixturevalue("zookeeper").address)


async def until_it_answers(store: Store) -> None:
    while True:
        with suppress(ConnectionLost):
            await store.exists("/")
            return
        await asyncio.sleep(0.01)


def test_a_write_whose_answer_was_lost_has_happened(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        session_id = store.session_id
        backend.lose_next_answer(store)
        with pytest.raises(ConnectionLost):
            await store.create("/mine", b"x", ephemeral=True)
        await until_it_answers(store)
        assert store.session_id == session_id
        assert (await store.get("/mine")).ephemeral_owner == session_id

    backend.run(scenario)


def test_an_ephemeral_node_whose_answer_was_lost_is_ones_own(backend: Backend) -> None:
    async def scenario() -> None:
        store, peer = await backend.open_store(), await backend.open_store()
        backend.lose_next_answer(store)
        with pytest.raises(ConnectionLost):
            await create_ephemeral(store, "/mine", b"x")
        await until_it_answers(store)
        node = await create_ephemeral(store, "/mine", b"x")
        assert node.ephemeral_owner == store.session_id
        with pytest.raises(NodeExists):
            await create_ephemeral(peer, "/mine", b"y")

    backend.run(scenario)


def test_ones_own_leftover_is_waited_for_and_then_made_anew(backend: Backend) -> None:
    async def scenario() -> None:
        before, store = await backend.open_store(), await backend.open_store()
        await before.create("/mine", b"me", ephemeral=True)
        leftover = await store.get("/mine")
        making = asyncio.ensure_future(
            create_ephemeral(store, "/mine", b"me", is_leftover=lambda data: data == b"me")
        )
        # Whoever writes to a node does not make it go.
        await before.set("/mine", b"me")
        await until_it_answers(store)
        assert not making.done()
        await before.close()
        node = await making
        assert node.ephemeral_owner == store.session_id
        assert node.czxid > leftover.czxid

    backend.run(scenario)


def test_a_leftover_that_stays_is_somebody_elses(backend: Backend) -> None:
    async def scenario() -> None:
        other, store = await backend.open_store(), await backend.open_store()
        await other.create("/mine", b"me", ephemeral=True)
        with pytest.raises(NodeExists, match="still there"):
            await create_ephemeral(
                store, "/mine", b"me", is_leftover=lambda data: True, leftover_timeout_s=0.2
            )

    backend.run(scenario)


class Follower:
    """Reads a node again whenever its watch is called, as everybody does who follows one."""

    def __init__(self, store: Store, last: bytes) -> None:
        self._store = store
        self._last = last
        self._tasks: list[asyncio.Task[None]] = []
        self.has_seen_the_last = asyncio.Event()

    def look(self) -> None:
        self._tasks.append(asyncio.ensure_future(self._look()))

    async def _look(self) -> None:
        with suppress(ConnectionLost, SessionExpired):
            if (await self._store.get("/a")).data == self._last:
                self.has_seen_the_last.set()

    async def stop(self) -> None:
        await asyncio.gather(*self._tasks)


def test_who_follows_a_node_sees_its_last_state(backend: Backend) -> None:
    async def scenario() -> None:
        store, writer = await backend.open_store(), await backend.open_store()
        await writer.create("/a", b"")
        follower = Follower(store, b"199")
        await store.watch_node("/a", follower.look)
        for number in range(200):
            await writer.set("/a", str(number).encode())
        await follower.has_seen_the_last.wait()
        await follower.stop()

    backend.run(scenario)


def test_who_follows_a_node_sees_its_last_state_after_it_was_cut_off(backend: Backend) -> None:
    async def scenario() -> None:
        store, writer = await backend.open_store(), await backend.open_store()
        await writer.create("/a", b"")
        follower = Follower(store, b"last")
        await store.watch_node("/a", follower.look)
        for number in range(20):
            await writer.set("/a", str(number).encode())
        await backend.cut_off(store)
        await writer.set("/a", b"last")
        await backend.heal(store)
        await follower.has_seen_the_last.wait()
        await follower.stop()

    backend.run(scenario)


def test_who_follows_a_node_sees_its_last_state_in_the_next_session(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await store.create("/a", b"")
        follower = Follower(store, b"last")
        await store.watch_node("/a", follower.look)
        await backend.expire(store)
        writer = await backend.open_store()
        await writer.set("/a", b"last")
        await store.open()
        await follower.has_seen_the_last.wait()
        await follower.stop()

    backend.run(scenario)


def test_children_of_a_node_that_comes_later_are_heard_of(backend: Backend) -> None:
    async def scenario() -> None:
        store, writer = await backend.open_store(), await backend.open_store()
        heard = asyncio.Event()
        await store.watch_children("/folder", heard.set)
        await writer.create("/folder")
        await heard.wait()
        heard.clear()
        await writer.create("/folder/child")
        while await store.children("/folder") != ["child"]:
            await heard.wait()
            heard.clear()

    backend.run(scenario)


def test_sessions_come_and_go_and_each_is_a_new_one(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        session_ids = [store.session_id]
        for _ in range(3):
            await store.create("/mine", ephemeral=True)
            await backend.expire(store)
            await store.open()
            session_ids.append(store.session_id)
            assert not await store.exists("/mine")
        assert session_ids == sorted(set(session_ids))

    backend.run(scenario)


def test_nothing_is_written_after_the_session_is_over(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()

        async def write_until_the_end(writer: int) -> None:
            for number in range(1_000_000):
                with suppress(ConnectionLost):
                    try:
                        await store.create(f"/{writer}-{number}", ephemeral=True)
                    except SessionExpired:
                        return
                await asyncio.sleep(0)

        writing = asyncio.gather(*map(write_until_the_end, range(5)))
        while not await store.children("/"):
            pass
        await backend.expire(store)
        await writing
        # It would be of a session that nobody knows of.
        observer = await backend.open_store()
        assert await observer.children("/") == []

    backend.run(scenario)


def test_a_large_write_goes_in_batches_that_each_are_checked(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await store.create("/epoch")
        await store.create("/states")
        states: list[Operation] = [
            Create(f"/states/{number:03}", bytes(10_000)) for number in range(200)
        ]
        batches = list(in_batches(states, Check("/epoch", 0)))
        assert len(batches) > 2
        for batch in batches:
            await store.multi(batch)
        assert len(await store.tree("/states")) == 200
        await store.set("/epoch", b"")
        with pytest.raises(Exception, match="epoch"):
            await store.multi(batches[0])

    backend.run(scenario)


def hear_of_the_end(peer: Peer) -> None:
    while peer.hear() != {"state": SessionState.EXPIRED.value}:
        pass


def test_an_owner_that_was_paused_does_not_own_anything_any_more(
    shared_backend: SharedBackend, peers: Peers
) -> None:
    backend = shared_backend

    async def make_the_place() -> None:
        await backend.open_store()

    backend.run(make_the_place)
    (owner,) = peers.start(backend.kind, backend.path, 1)
    owner.ask("create", "/mine", "", True)
    owner.ask("states", "")
    owner.signal(signal.SIGSTOP)

    async def scenario() -> None:
        await backend.expire_those_that_hang()
        store = await backend.open_store()
        node = await create_ephemeral(store, "/mine", b"other", is_leftover=lambda data: True)
        owner.signal(signal.SIGCONT)
        owner.tell("create", "/late", "", False)
        await asyncio.to_thread(hear_of_the_end, owner)
        owner.tell("set", "/mine", "late", -1)
        while (answer := await asyncio.to_thread(owner.hear)) != {"error": "SessionExpired"}:
            assert answer.get("error") == "ConnectionLost"
        assert not await store.exists("/late")
        assert await store.get("/mine") == node

    backend.run(scenario)


def test_a_loop_that_stands_still_keeps_no_session(
    shared_backend: SharedBackend, peers: Peers
) -> None:
    """Though threads of its process go on: kazoo has one that sends heartbeats."""
    backend = shared_backend

    async def make_the_place() -> None:
        await backend.open_store()

    backend.run(make_the_place)
    owner, observer = peers.start(backend.kind, backend.path, 2, "3000")
    owner.ask("create", "/mine", "", True)
    owner.ask("states", "")
    observer.ask("watch", "/mine")
    owner.ask("stand_still", "")
    answer = None
    while answer != {"error": "NoNode"}:
        # It may hear of the creation, too.
        while answer is None and observer.hear() != {"changed": "/mine"}:
            pass
        observer.tell("get", "/mine")
        is_called = False
        while (answer := observer.hear()) == {"changed": "/mine"}:
            is_called = True
        if answer == {"result": ""} and not is_called:
            answer = None
    owner.tell("go on")
    hear_of_the_end(owner)
