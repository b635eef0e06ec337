from __future__ import annotations

import asyncio
import random

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
