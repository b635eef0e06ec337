from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.controller.event_queue import EventQueue


def run(scenario: Callable[[EventQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        events = EventQueue()
        events.start()
        async with asyncio.timeout(20):
            await scenario(events)
        await events.close()

    asyncio.run(main())


def test_one_at_a_time_and_in_order() -> None:
    async def scenario(events: EventQueue) -> None:
        trace: list[str] = []

        def event(name: str) -> Callable[[], Awaitable[str]]:
            async def steps() -> str:
                trace.append(f"{name} begins")
                await asyncio.sleep(0)
                trace.append(f"{name} ends")
                return name

            return steps

        results = await asyncio.gather(*(events.run(event(name)) for name in "ab"))
        assert results == ["a", "b"]
        assert trace == ["a begins", "a ends", "b begins", "b ends"]

    run(scenario)


def test_an_error_goes_to_who_asked_and_the_queue_goes_on() -> None:
    async def scenario(events: EventQueue) -> None:
        async def fail() -> None:
            raise ValueError("mine")

        async def succeed() -> int:
            return 1

        with pytest.raises(ValueError, match="mine"):
            await events.run(fail)
        assert await events.run(succeed) == 1

    run(scenario)


def test_who_gives_up_waiting_does_not_stop_what_has_begun() -> None:
    async def scenario(events: EventQueue) -> None:
        begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            begun.set()
            await go.wait()
            done.set()

        async def never() -> None:
            raise AssertionError("was given up before it began")

        first = asyncio.ensure_future(events.run(slow))
        second = asyncio.ensure_future(events.run(never))
        await begun.wait()
        first.cancel()
        second.cancel()
        await asyncio.wait([first, second])
        go.set()
        await done.wait()

    run(scenario)


def test_closing_cancels_what_runs_and_what_waits() -> None:
    async def main() -> None:
        events = EventQueue()
        events.start()
        running = asyncio.ensure_future(events.run(asyncio.Event().wait))
        waiting = asyncio.ensure_future(events.run(asyncio.Event().wait))
        await asyncio.sleep(0.01)
        await events.close()
        await asyncio.wait([running, waiting])
        assert running.cancelled()
        assert waiting.cancelled()

    asyncio.run(main())


def test_what_nobody_waits_for_has_its_turn_too() -> None:
    async def scenario(events: EventQueue) -> None:
        trace: list[str] = []

        async def posted() -> None:
            trace.append("posted")

        async def asked() -> None:
            trace.append("asked")

        events.post(posted)
        await events.run(asked)
        assert trace == ["posted", "asked"]

    run(scenario)
