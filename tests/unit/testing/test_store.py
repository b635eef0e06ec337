"""The faults that can be ordered. What every store promises is in tests/contract/coordination."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ottla.coordination.store import ConnectionLost, SessionExpired, SessionState
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.store import MemoryEnsemble, MemoryStore


def run(scenario: Callable[[MemoryEnsemble, MemoryStore, MemoryStore], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        one, two = MemoryStore(ensemble), MemoryStore(ensemble)
        for store in (one, two):
            await store.open()
        await scenario(ensemble, one, two)

    run_virtual(main)


def test_an_expired_session_takes_its_nodes_along() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        states: list[SessionState] = []
        one.on_session(states.append)
        await one.create("/mine", ephemeral=True)
        old_id = one.session_id
        ensemble.expire(one)
        assert states == [SessionState.EXPIRED]
        assert not await two.exists("/mine")
        with pytest.raises(SessionExpired):
            await one.exists("/")
        await one.open()
        assert states == [SessionState.EXPIRED, SessionState.CONNECTED]
        assert one.session_id != old_id
        assert await one.children("/") == []

    run(scenario)


def test_a_disconnected_session_lives_on_and_looks_again_when_it_is_back() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        states: list[SessionState] = []
        calls: list[str] = []
        one.on_session(states.append)
        await one.create("/mine", ephemeral=True)
        await one.watch_node("/theirs", lambda: calls.append("look"))
        ensemble.disconnect(one)
        for call in (one.get("/mine"), one.create("/late"), one.watch_node("/x", lambda: None)):
            with pytest.raises(ConnectionLost):
                await call
        await two.create("/theirs")
        assert await two.exists("/mine")
        assert not await two.exists("/late")
        assert calls == []
        ensemble.reconnect(one)
        await one.exists("/")
        assert calls == ["look"]
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert await one.exists("/theirs")

    run(scenario)


def test_a_lost_answer_hides_a_write_that_happened_and_only_that() -> None:
    async def scenario(ensemble: MemoryEnsemble, one: MemoryStore, two: MemoryStore) -> None:
        ensemble.lose_next_answer(one)
        assert not await one.exists("/a")  # Reads are answered.
        with pytest.raises(ConnectionLost):
            await one.create("/a")
        assert await two.exists("/a")
        await one.create("/b")

    run(scenario)
