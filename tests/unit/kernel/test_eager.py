from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.eager import Done, begin


async def _five() -> int:
    return 5


def test_what_waits_for_nothing_is_done_at_once() -> None:
    async def main() -> None:
        done = begin(_five())
        assert isinstance(done, Done)
        assert done.value == 5

    asyncio.run(main())


def test_what_waits_goes_on_in_a_task() -> None:
    seen: list[str] = []

    async def waits(first: asyncio.Future[int], second: asyncio.Future[int]) -> int:
        seen.append("begun")
        value = await first
        await asyncio.sleep(0)
        return value + await second

    async def main() -> None:
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()
        task = begin(waits(first, second))
        assert seen == ["begun"]
        assert isinstance(task, asyncio.Task)
        loop.call_soon(first.set_result, 1)
        loop.call_later(0, second.set_result, 2)
        assert await task == 3

    asyncio.run(main())


def test_errors_come_at_once_or_with_the_task() -> None:
    async def fails(waited: asyncio.Future[None] | None) -> None:
        if waited is not None:
            await waited
        raise ValueError("no")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            begin(fails(None))
        waited = asyncio.get_running_loop().create_future()
        task = begin(fails(waited))
        assert isinstance(task, asyncio.Task)
        waited.set_exception(KeyError("its own"))
        with pytest.raises(KeyError, match="its own"):
            await task

    asyncio.run(main())


def test_a_cancelled_task_runs_what_cleans_up() -> None:
    cleaned: list[str] = []

    async def waits(for_ever: asyncio.Future[None]) -> None:
        try:
            await for_ever
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")

    async def main() -> None:
        task = begin(waits(asyncio.get_running_loop().create_future()))
        assert isinstance(task, asyncio.Task)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == ["yes"]

    asyncio.run(main())


def test_one_who_swallows_a_cancellation_may_go_on() -> None:
    async def waits(for_ever: asyncio.Future[None]) -> str:
        try:
            await for_ever
        except asyncio.CancelledError:
            return "went on"
        return "never"

    async def main() -> None:
        task = begin(waits(asyncio.get_running_loop().create_future()))
        assert isinstance(task, asyncio.Task)
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "went on"

    asyncio.run(main())


def test_one_who_is_cancelled_at_once_hears_of_it() -> None:
    """As when a connection brings a request, and in the same read something that closes it."""
    heard: list[str] = []

    async def waits(for_ever: asyncio.Future[None]) -> None:
        try:
            await for_ever
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            heard.append("yes")
            raise

    async def main() -> None:
        for_ever = asyncio.get_running_loop().create_future()
        task = begin(waits(for_ever))
        assert isinstance(task, asyncio.Task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert heard == ["yes"]
        assert for_ever.cancelled()

    asyncio.run(main())
