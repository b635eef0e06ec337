from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.workers import SimulatedWorkers


def order(seed: int, *, name: str | None) -> list[int]:
    async def main(loop: VirtualLoop) -> list[int]:
        done: list[int] = []
        workers = SimulatedWorkers(loop, random.Random(seed))
        queue = workers if name is None else workers.ordered(name)
        await asyncio.gather(*(queue.submit(done.append, number) for number in range(10)))
        return done

    return run_virtual(main)


def test_calls_overtake_each_other_as_the_seed_says() -> None:
    orders = [order(seed, name=None) for seed in range(5)]
    assert all(sorted(each) == list(range(10)) for each in orders)
    assert any(each != list(range(10)) for each in orders)
    assert orders == [order(seed, name=None) for seed in range(5)]


def test_ordered_calls_keep_their_order() -> None:
    for seed in range(5):
        assert order(seed, name="queue") == list(range(10))


def test_one_name_is_one_queue() -> None:
    async def main(loop: VirtualLoop) -> None:
        workers = SimulatedWorkers(loop, random.Random(0))
        assert workers.ordered("a") is workers.ordered("a")
        assert workers.ordered("a") is workers.ordered("b").ordered("a")
        assert workers.ordered("a") is not workers.ordered("b")

    run_virtual(main)


def test_work_takes_time_and_gives_its_result_or_error() -> None:
    async def main(loop: VirtualLoop) -> None:
        workers = SimulatedWorkers(loop, random.Random(0), delay_s_max=5)
        assert await workers.submit(int, "12", base=8) == 10
        assert 0 < loop.now_s <= 5
        with pytest.raises(ValueError, match="twelve"):
            await workers.submit(int, "twelve")

    run_virtual(main)


def test_what_is_cancelled_or_comes_to_a_closed_one_is_not_done() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        done: list[str] = []
        workers = SimulatedWorkers(loop, random.Random(0))
        workers.submit(done.append, "cancelled").cancel()
        await workers.submit(done.append, "done")
        late = workers.submit(done.append, "too late")
        workers.close()
        await asyncio.sleep(1)
        assert late.cancelled()
        return done

    assert run_virtual(main) == ["done"]


def test_a_call_that_takes_time_is_done_before_it_is_known_to_be() -> None:
    async def main(loop: VirtualLoop) -> None:
        done: list[str] = []

        def write() -> str:
            loop.pass_time(3)
            done.append("written")
            return "result"

        workers = SimulatedWorkers(loop, random.Random(0), delay_s_max=0.5)
        for queue in (workers, workers.ordered("queue")):
            began_s = loop.now_s
            future = queue.submit(write)
            await asyncio.sleep(1)  # Others run meanwhile.
            assert loop.now_s == began_s + 1
            assert done == ["written"]
            assert not future.done()
            assert await future == "result"
            assert began_s + 3 <= loop.now_s <= began_s + 3.5
            done.clear()

    run_virtual(main)


def test_ordered_calls_that_take_time_begin_and_end_one_after_another() -> None:
    async def main(loop: VirtualLoop) -> None:
        began_s: list[float] = []
        ended: list[int] = []

        def work(duration_s: float) -> None:
            began_s.append(loop.now_s)
            loop.pass_time(duration_s)

        def end(number: int, _: asyncio.Future[None]) -> None:
            ended.append(number)

        queue = SimulatedWorkers(loop, random.Random(0)).ordered("queue")
        for number, duration_s in enumerate((1.0, 0.0, 2.0)):
            future = queue.submit(work, duration_s)
            future.add_done_callback(partial(end, number))
        await future
        await asyncio.sleep(0)
        assert [round(each_s) for each_s in began_s] == [0, 1, 1]
        assert ended == [0, 1, 2]
        assert 3 <= loop.now_s < 3.1

    run_virtual(main)


def test_what_dies_with_its_process_may_be_done_and_nobody_hears_of_it() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        done: list[str] = []

        def write(what: str) -> None:
            loop.pass_time(3)
            done.append(what)

        workers = SimulatedWorkers(loop, random.Random(0))
        futures = [workers.ordered("queue").submit(write, what) for what in ("first", "second")]
        await asyncio.sleep(1)
        workers.die()
        await asyncio.sleep(10)
        assert not any(future.done() for future in futures)
        return done

    assert run_virtual(main) == ["first"]


def test_a_worker_has_no_loop() -> None:
    async def main(loop: VirtualLoop) -> None:
        workers = SimulatedWorkers(loop, random.Random(0))
        with pytest.raises(RuntimeError, match="no running event loop"):
            await workers.submit(asyncio.get_running_loop)
        assert asyncio.get_running_loop() is loop

    run_virtual(main)
