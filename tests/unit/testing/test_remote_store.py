"""Sessions and connections. What every store promises is in tests/contract/coordination."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.coordination.store import ConnectionLost, SessionExpired, SessionState
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.remote_store import RemoteStore
from ottla.testing.store import MemoryEnsemble

TIMEOUT_S = 6.0


class Sessions:
    def __init__(self, loop: VirtualLoop) -> None:
        self.ensemble = MemoryEnsemble()
        rng = random.Random(0)
        self.one, self.two = (
            RemoteStore(self.ensemble, loop, rng, session_timeout_s=TIMEOUT_S) for _ in range(2)
        )
        self.states: list[SessionState] = []
        self.one.on_session(self.states.append)


def run(scenario: Callable[[Sessions], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        sessions = Sessions(loop)
        await sessions.one.open()
        await sessions.two.open()
        await sessions.one.create("/mine", ephemeral=True)
        await scenario(sessions)
        await sessions.two.close()

    run_virtual(main)


def test_a_session_lives_while_it_is_heard_of() -> None:
    async def scenario(sessions: Sessions) -> None:
        await asyncio.sleep(10 * TIMEOUT_S)
        assert await sessions.two.exists("/mine")
        await sessions.one.close()
        assert not await sessions.two.exists("/mine")
        assert sessions.states == [SessionState.CONNECTED]

    run(scenario)


def test_a_short_cut_delays_and_no_more() -> None:
    async def scenario(sessions: Sessions) -> None:
        seen: list[str] = []
        await sessions.one.watch_node("/theirs", lambda: seen.append("look"))
        sessions.one.cut()
        late = asyncio.create_task(sessions.one.create("/late"))
        await sessions.two.create("/theirs")
        await asyncio.sleep(TIMEOUT_S / 3)
        assert not late.done()
        assert seen == []
        sessions.one.heal()
        await late
        assert seen == ["look"]
        assert sessions.states == [SessionState.CONNECTED]

    run(scenario)


def test_a_longer_one_loses_the_connection_and_the_session_lives_on() -> None:
    async def scenario(sessions: Sessions) -> None:
        seen: list[str] = []
        await sessions.one.watch_node("/theirs", lambda: seen.append("look"))
        await asyncio.sleep(TIMEOUT_S / 3 - 0.1)
        sessions.one.cut()
        await sessions.two.create("/theirs")
        with pytest.raises(ConnectionLost):
            await sessions.one.create("/never")
        sessions.one.heal()
        await asyncio.sleep(0.2)
        assert sessions.states[1:] == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert seen == ["look"]
        assert await sessions.two.exists("/mine")
        assert not await sessions.two.exists("/never")

    run(scenario)


def test_who_is_cut_off_for_too_long_hears_of_its_end_when_it_is_back() -> None:
    async def scenario(sessions: Sessions) -> None:
        sessions.one.cut()
        await asyncio.sleep(2 * TIMEOUT_S)
        assert not await sessions.two.exists("/mine")
        assert sessions.states[1:] == [SessionState.SUSPENDED]
        sessions.one.heal()
        await asyncio.sleep(0.2)
        assert sessions.states[2:] == [SessionState.EXPIRED]
        with pytest.raises(SessionExpired):
            await sessions.one.exists("/")
        await sessions.one.open()
        await sessions.one.create("/mine", ephemeral=True)

    run(scenario)


def test_a_dead_process_leaves_its_session_until_it_has_timed_out() -> None:
    async def scenario(sessions: Sessions) -> None:
        sessions.one.die()
        await asyncio.sleep(TIMEOUT_S / 3)
        assert await sessions.two.exists("/mine")
        await asyncio.sleep(TIMEOUT_S)
        assert not await sessions.two.exists("/mine")

    run(scenario)


def test_a_write_whose_answer_is_lost_has_happened_and_the_connection_is_another() -> None:
    async def scenario(sessions: Sessions) -> None:
        sessions.one.lose_next_answer()
        assert not await sessions.one.exists("/a")  # Reads are answered.
        with pytest.raises(ConnectionLost):
            await sessions.one.create("/a")
        assert await sessions.two.exists("/a")
        await asyncio.sleep(0.2)
        await sessions.one.create("/b")
        sessions.one.reset()
        await asyncio.sleep(0.2)
        await sessions.one.create("/c")
        suspended = [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert sessions.states[1:] == suspended + suspended

    run(scenario)


def test_whoever_listens_hears_of_writes_before_the_client_does() -> None:
    async def scenario(sessions: Sessions) -> None:
        heard: list[bool] = []
        sessions.one.on_write = lambda: heard.append(writing.done())
        await sessions.one.exists("/")
        writing = asyncio.create_task(sessions.one.create("/a"))
        await writing
        assert heard == [False]

    run(scenario)
