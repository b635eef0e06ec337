from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from ottla.kernel import workers as workers_module
from ottla.kernel.workers import ThreadWorkers, giving_way


def run(scenario: Callable[[ThreadWorkers], Awaitable[None]]) -> None:
    async def with_workers() -> None:
        workers = ThreadWorkers(name="test")
        try:
            await scenario(workers)
        finally:
            workers.close()

    asyncio.run(with_workers())


def test_work_runs_off_the_loop_and_its_result_comes_back_on_it() -> None:
    async def scenario(workers: ThreadWorkers) -> None:
        future = workers.submit(threading.get_ident)
        done_on: list[int] = []
        future.add_done_callback(lambda _: done_on.append(threading.get_ident()))
        assert await future != threading.get_ident()
        await asyncio.sleep(0)
        assert done_on == [threading.get_ident()]

    run(scenario)


def test_arguments_are_passed_and_errors_come_back() -> None:
    async def scenario(workers: ThreadWorkers) -> None:
        assert await workers.submit(int, "ff", base=16) == 255
        with pytest.raises(ValueError, match="invalid literal"):
            await workers.submit(int, "x")

    run(scenario)


def test_ordered_runs_one_after_another() -> None:
    async def scenario(workers: ThreadWorkers) -> None:
        done: list[int] = []
        first_may_end = threading.Event()

        def first() -> None:
            assert first_may_end.wait(10)
            done.append(0)

        ordered = workers.ordered("folder")
        futures = [ordered.submit(first)]
        futures += [ordered.submit(done.append, number) for number in range(1, 50)]
        await workers.submit(first_may_end.set)  # Others are not held up by a queue of one.
        await asyncio.gather(*futures)
        assert done == list(range(50))

    run(scenario)


def test_one_name_is_one_queue() -> None:
    async def scenario(workers: ThreadWorkers) -> None:
        assert workers.ordered("a") is workers.ordered("a")
        assert workers.ordered("a") is not workers.ordered("b")

    run(scenario)


def test_close_waits_for_what_runs_and_drops_what_waits() -> None:
    async def scenario() -> None:
        workers = ThreadWorkers(name="test")
        started, may_end = threading.Event(), threading.Event()
        done: list[str] = []

        def work(name: str) -> None:
            started.set()
            assert may_end.wait(10)
            done.append(name)

        ordered = workers.ordered("folder")
        running = ordered.submit(work, "running")
        waiting = ordered.submit(work, "waiting")
        assert started.wait(10)
        closing = threading.Thread(target=workers.close)
        closing.start()
        # Cancelled by close, which then waits for the first.
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 10)
        may_end.set()
        await running
        closing.join(10)
        assert not closing.is_alive()
        assert done == ["running"]

    asyncio.run(scenario())


def test_a_thread_that_goes_over_many_things_gives_way_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    seen_when_giving_way: list[int] = []
    monkeypatch.setattr(workers_module, "give_way", lambda: seen_when_giving_way.append(len(seen)))
    for thing in giving_way(range(600)):
        seen.append(thing)
    assert seen == list(range(600))
    assert seen_when_giving_way == [256, 512]
