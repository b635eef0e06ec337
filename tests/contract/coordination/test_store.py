"""What every coordination store must do."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordination.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    Set,
    Store,
)
from tests.contract.coordination.backends import Backend


def test_a_node_has_data_and_a_version_that_grows(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        assert await store.create("/a", b"one") == "/a"
        node = await store.get("/a")
        assert (node.data, node.version, node.ephemeral_owner) == (b"one", 0, 0)
        assert await store.set("/a", b"two") == 1
        assert await store.set("/a", b"three", version=1) == 2
        after = await store.get("/a")
        assert after == Node(b"three", 2, node.czxid, 0)

    backend.run(scenario)


def test_many_nodes_are_read_at_once_and_those_that_are_not_there_are_left_out(
    backend: Backend,
) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        for number in range(300):
            await store.create(f"/{number}", str(number).encode())
        paths = [f"/{number}" for number in range(0, 400, 2)]
        found = await store.get_many(paths)
        assert list(found) == paths[:150]
        assert {path: node.data for path, node in found.items()} == {
            path: path[1:].encode() for path in paths[:150]
        }
        assert found["/2"] == await store.get("/2")
        assert await store.get_many([]) == {}

    backend.run(scenario)


def test_each_wrong_use_has_its_error_and_changes_nothing(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await store.create("/a", b"one")
        await store.create("/a/b")
        with pytest.raises(NodeExists):
            await store.create("/a", b"again")
        with pytest.raises(NoNode):
            await store.create("/missing/child")
        with pytest.raises(NoNode):
            await store.get("/missing")
        with pytest.raises(NoNode):
            await store.set("/missing", b"")
        with pytest.raises(NoNode):
            await store.delete("/missing")
        with pytest.raises(NoNode):
            await store.children("/missing")
        with pytest.raises(BadVersion):
            await store.set("/a", b"", version=1)
        with pytest.raises(BadVersion):
            await store.delete("/a/b", version=1)
        with pytest.raises(NotEmpty):
            await store.delete("/a")
        assert (await store.get("/a")).data == b"one"
        assert await store.children("/a") == ["b"]

    backend.run(scenario)


def test_deleted_is_gone_and_made_again_is_new(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await store.create("/a", b"one")
        await store.set("/a", b"two")
        first = await store.get("/a")
        await store.delete("/a", version=1)
        assert not await store.exists("/a")
        await store.create("/a", b"three")
        second = await store.get("/a")
        assert second.version == 0
        assert second.czxid > first.czxid

    backend.run(scenario)


def test_children_are_sorted_names_of_the_next_level_only(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        for path in ("/t", "/t/b", "/t/a", "/t/a/deep", "/t-x", "/t0", "/t/a-b"):
            await store.create(path, path.encode())
        assert await store.children("/t") == ["a", "a-b", "b"]
        assert await store.children("/t/b") == []
        assert await store.children("/") == ["t", "t-x", "t0"]
        tree = await store.tree("/t")
        assert list(tree) == ["/t/a", "/t/a-b", "/t/a/deep", "/t/b"]
        assert tree["/t/a/deep"].data == b"/t/a/deep"
        assert set(await store.tree("/")) == {*tree, "/t", "/t-x", "/t0"}

    backend.run(scenario)


def test_sequential_names_grow_and_are_not_given_twice(backend: Backend) -> None:
    async def scenario() -> None:
        store, peer = await backend.open_store(), await backend.open_store()
        await store.create("/q")
        first = await store.create("/q/n_", sequential=True)
        second = await peer.create("/q/n_", sequential=True)
        await store.delete(second)
        third = await store.create("/q/n_", sequential=True)
        assert first < second < third
        assert first.removeprefix("/q/n_").isdigit()
        assert len(first) == len("/q/n_") + 10

    backend.run(scenario)


def test_multi_happens_in_order_and_returns_what_was_made(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await store.create("/epoch", b"1")
        results = await store.multi(
            [
                Check("/epoch", 0),
                Create("/a", b"x"),
                Create("/a/b"),
                Set("/a", b"y", version=0),
                Create("/s", sequential=True),
                Delete("/a/b"),
            ]
        )
        assert results[:4] == [None, "/a", "/a/b", 1]
        assert results[5] is None
        assert await store.multi([]) == []
        assert (await store.get("/a")).data == b"y"
        assert await store.children("/a") == []

    backend.run(scenario)


def test_multi_is_all_or_nothing_and_names_the_culprit(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await store.create("/epoch", b"1")
        await store.create("/old", b"x")
        before = await store.tree("/")
        with pytest.raises(BadVersion) as caught:
            await store.multi(
                [
                    Create("/a"),
                    Create("/s", sequential=True),
                    Set("/old", b"y"),
                    Delete("/old"),
                    Check("/epoch", 7),
                ]
            )
        assert caught.value.path == "/epoch"
        assert await store.tree("/") == before
        made = await store.create("/s", sequential=True)
        assert set(await store.tree("/")) == {*before, made}

    backend.run(scenario)


def test_of_many_conditional_sets_exactly_one_wins(backend: Backend) -> None:
    async def scenario() -> None:
        stores = [await backend.open_store() for _ in range(4)]
        await stores[0].create("/a", b"")

        async def attempt(index: int) -> bool:
            try:
                await stores[index].set("/a", str(index).encode(), version=0)
            except BadVersion:
                return False
            return True

        won = await asyncio.gather(*map(attempt, range(4)))
        assert sorted(won) == [False, False, False, True]
        assert (await stores[0].get("/a")).data == str(won.index(True)).encode()

    backend.run(scenario)


def test_ephemeral_nodes_go_with_their_session(backend: Backend) -> None:
    async def scenario() -> None:
        store, peer = await backend.open_store(), await backend.open_store()
        await peer.create("/ids")
        await store.create("/ids/1", ephemeral=True)
        await peer.create("/ids/2", ephemeral=True)
        assert (await peer.get("/ids/1")).ephemeral_owner == store.session_id
        with pytest.raises(NoChildrenForEphemerals):
            await store.create("/ids/1/x")
        seen = asyncio.Event()
        await peer.watch_children("/ids", seen.set)
        await store.close()
        await seen.wait()
        assert await peer.children("/ids") == ["2"]

    backend.run(scenario)


def test_a_closed_store_says_so(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await store.close()
        with pytest.raises(SessionExpired):
            await store.get("/")
        await store.open()
        assert await store.exists("/")

    backend.run(scenario)


class Counter:
    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._changed.set()

    async def wait_for_a_call(self) -> None:
        await self._changed.wait()
        self._changed.clear()


async def settle(store: Store) -> None:
    """After this, every call for changes made before has come."""
    await store.exists("/")
    await asyncio.sleep(0.05)


def test_a_node_watch_hears_of_creation_data_and_deletion(backend: Backend) -> None:
    async def scenario() -> None:
        store, peer = await backend.open_store(), await backend.open_store()
        own, others = Counter(), Counter()
        await store.watch_node("/a", own)
        await peer.watch_node("/a", others)
        await store.create("/a")
        await own.wait_for_a_call()
        await others.wait_for_a_call()
        await store.set("/a", b"x")
        await own.wait_for_a_call()
        await others.wait_for_a_call()
        await store.delete("/a")
        await own.wait_for_a_call()
        await others.wait_for_a_call()

    backend.run(scenario)


def test_a_children_watch_hears_of_coming_and_going_not_of_data(backend: Backend) -> None:
    async def scenario() -> None:
        store, peer = await backend.open_store(), await backend.open_store()
        await store.create("/a")
        await settle(store)
        await settle(peer)
        calls = Counter()
        await peer.watch_children("/a", calls)
        await store.create("/a/b")
        await calls.wait_for_a_call()
        before = calls.count
        await store.set("/a/b", b"x")
        await store.create("/a/b/c")
        await settle(peer)
        assert calls.count == before
        await store.delete("/a/b/c")
        await store.delete("/a/b")
        await calls.wait_for_a_call()

    backend.run(scenario)


def test_a_read_inside_a_watch_sees_the_change(backend: Backend) -> None:
    async def scenario() -> None:
        store, peer = await backend.open_store(), await backend.open_store()
        await store.create("/a", b"0")
        seen: list[bytes] = []
        tasks = []
        done = asyncio.Event()

        async def look() -> None:
            seen.append((await peer.get("/a")).data)
            if seen[-1] == b"20":
                done.set()

        await peer.watch_node("/a", lambda: tasks.append(asyncio.ensure_future(look())))
        for number in range(1, 21):
            await store.set("/a", str(number).encode())
        await done.wait()
        await asyncio.gather(*tasks)
        assert [int(data) for data in seen] == sorted(int(data) for data in seen)

    backend.run(scenario)


def test_a_failed_multi_calls_nobody(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        await settle(store)
        calls = Counter()
        await store.watch_node("/a", calls)
        with pytest.raises(NoNode):
            await store.multi([Create("/a"), Delete("/missing")])
        await settle(store)
        assert calls.count == 0

    backend.run(scenario)


def test_a_cancelled_watch_is_silent(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        silent, loud = Counter(), Counter()
        watch = await store.watch_node("/a", silent)
        await store.watch_node("/a", loud)
        watch.cancel()
        watch.cancel()
        await store.create("/a")
        await loud.wait_for_a_call()
        assert silent.count == 0

    backend.run(scenario)


def test_a_caller_that_gives_up_leaves_the_store_usable(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        calls = Counter()
        await store.watch_node("/a", calls)
        task = asyncio.ensure_future(store.create("/a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if await store.exists("/a"):
            await calls.wait_for_a_call()
        await store.create("/b")
        assert await store.exists("/b")

    backend.run(scenario)


def test_an_expired_session_is_over_until_opened_again(backend: Backend) -> None:
    async def scenario() -> None:
        store = await backend.open_store()
        states: list[SessionState] = []
        store.on_session(states.append)
        await store.create("/mine", ephemeral=True)
        calls = Counter()
        await store.watch_node("/mine", calls)
        first_session = store.session_id
        await backend.expire(store)
        assert states in ([SessionState.EXPIRED], [SessionState.SUSPENDED, SessionState.EXPIRED])
        with pytest.raises(SessionExpired):
            await store.get("/")
        with pytest.raises(SessionExpired):
            await store.create("/late")
        await store.open()
        assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
        assert store.session_id > first_session
        await calls.wait_for_a_call()
        assert not await store.exists("/mine")
        assert not await store.exists("/late")
        await store.create("/mine", ephemeral=True)

    backend.run(scenario)
