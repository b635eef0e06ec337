from __future__ import annotations

import asyncio
import random
from contextvars import Context, ContextVar, copy_context
from itertools import pairwise

import pytest

from ottla.testing.loop import EPOCH_MS, NothingLeft, VirtualClock, VirtualLoop, run_virtual


def test_time_passes_without_waiting() -> None:
    async def main(loop: VirtualLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.now_s

    assert run_virtual(main) == 86_400


def test_timers_ring_in_the_order_of_their_times() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[str, float]]:
        rung: list[tuple[str, float]] = []

        def ring(name: str) -> None:
            rung.append((name, loop.now_s))

        for name, delay_s in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
            loop.call_later(delay_s, ring, name)
        await asyncio.sleep(2.5)
        return rung

    assert run_virtual(main) == [("a", 1.0), ("b", 2.0)]


def test_waiting_for_what_never_comes_is_an_error_and_no_hang() -> None:
    async def main(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(NothingLeft):
        run_virtual(main)


def test_tasks_that_are_left_are_ended() -> None:
    ended: list[str] = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("forgotten")

    async def main(loop: VirtualLoop) -> None:
        task = asyncio.create_task(forgotten())
        await asyncio.sleep(1)
        assert not task.done()

    run_virtual(main)
    assert ended == ["forgotten"]


def test_a_clock_tells_the_loops_time_with_its_own_skew() -> None:
    async def main(loop: VirtualLoop) -> None:
        right, fast = VirtualClock(loop), VirtualClock(loop, skew_ms=500)
        await asyncio.sleep(2)
        assert right.monotonic_s() == fast.monotonic_s() == 2
        assert right.now_ms() == EPOCH_MS + 2000
        assert fast.now_ms() == EPOCH_MS + 2500

    run_virtual(main)


def test_timers_of_a_clock_ring_until_they_are_cancelled_or_it_stops() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        rung: list[str] = []
        clock, other = VirtualClock(loop), VirtualClock(loop)
        clock.call_later(1, lambda: rung.append("in time"))
        clock.call_later(1, lambda: rung.append("cancelled")).cancel()
        clock.call_later(3, lambda: rung.append("after the end"))
        other.call_later(3, lambda: rung.append("of another process"))
        await asyncio.sleep(2)
        clock.stop()
        await asyncio.sleep(2)
        return rung

    assert run_virtual(main) == ["in time", "of another process"]


def run_busy(seed: int) -> list[str]:
    """What three tasks and three callbacks do that are ready in the same turn."""

    async def main(loop: VirtualLoop) -> list[str]:
        seen: list[str] = []

        async def run(name: str) -> None:
            seen.append(name)

        tasks = [asyncio.create_task(run(name)) for name in ("a", "b", "c")]
        for number in range(3):
            loop.call_soon(seen.append, str(number))
        await asyncio.gather(*tasks)
        return seen

    return run_virtual(main, rng=random.Random(seed))


def test_tasks_that_are_ready_together_run_in_any_order_and_callbacks_in_theirs() -> None:
    runs = [run_busy(seed) for seed in range(20)]
    assert {tuple(name for name in run if name.isdigit()) for run in runs} == {("0", "1", "2")}
    assert len({tuple(name for name in run if name.isalpha()) for run in runs}) > 1
    assert runs == [run_busy(seed) for seed in range(20)]


def test_with_priorities_one_task_goes_before_another_for_a_while() -> None:
    """Without, every turn would have an order of its own."""

    async def main(loop: VirtualLoop) -> list[str]:
        seen: list[str] = []

        async def run(name: str) -> None:
            for _ in range(200):
                seen.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(*(run(name) for name in ("a", "b", "c")))
        return seen

    def change_count(seed: int, *, has_priorities: bool) -> int:
        seen = run_virtual(main, rng=random.Random(seed), has_priorities=has_priorities)
        turns = [tuple(seen[index : index + 3]) for index in range(0, len(seen), 3)]
        assert all({*turn} == {"a", "b", "c"} for turn in turns)
        return sum(one != two for one, two in pairwise(turns))

    assert all(0 < change_count(seed, has_priorities=True) < 20 for seed in range(5))
    assert all(change_count(seed, has_priorities=False) > 100 for seed in range(5))


def test_tasks_that_wait_for_the_same_future_go_on_in_the_order_in_which_they_asked() -> None:
    async def main(loop: VirtualLoop) -> None:
        asked: list[str] = []
        seen: list[str] = []
        begun = loop.create_future()

        async def run(name: str) -> None:
            asked.append(name)
            await begun
            seen.append(name)

        tasks = [asyncio.create_task(run(name)) for name in ("a", "b", "c")]
        await asyncio.sleep(1)
        begun.set_result(None)
        await asyncio.gather(*tasks)
        assert seen == asked

    for seed in range(20):
        run_virtual(main, rng=random.Random(seed))


def test_on_a_busy_loop_an_event_comes_in_the_midst_of_what_another_has_set_off() -> None:
    """Without time that passes in a turn, all of it would be done before the next event."""

    async def main(loop: VirtualLoop) -> list[str]:
        seen: list[str] = []

        def chain(name: str, left: int) -> None:
            seen.append(name)
            if left:
                loop.call_soon(chain, name, left - 1)

        loop.call_later(0.0001, chain, "a", 5)
        loop.call_later(0.0002, chain, "b", 5)
        await asyncio.sleep(1)
        return seen

    assert run_virtual(main) == ["a"] * 6 + ["b"] * 6
    runs = [run_virtual(main, rng=random.Random(seed)) for seed in range(10)]
    assert all(sorted(run) == ["a"] * 6 + ["b"] * 6 for run in runs)
    assert any(run != ["a"] * 6 + ["b"] * 6 for run in runs)


def test_callbacks_of_a_context_can_be_dropped() -> None:
    of: ContextVar[str] = ContextVar("of")

    async def main(loop: VirtualLoop) -> list[str]:
        called: list[str] = []
        for name in ("a", "b"):
            of.set(name)
            loop.call_soon(called.append, f"{name} soon")
            loop.call_later(1, called.append, f"{name} later")
        loop.drop_callbacks(lambda context: context.get(of) == "a")
        await asyncio.sleep(2)
        return called

    assert run_virtual(main) == ["b soon", "b later"]


_owner: ContextVar[str] = ContextVar("owner", default="nobody")


async def ticks(loop: VirtualLoop, name: str, rung: list[tuple[str, float]]) -> None:
    _owner.set(name)
    while True:
        await asyncio.sleep(1)
        rung.append((name, loop.now_s))


def test_a_pause_holds_whatever_is_called_in_a_context_until_it_ends() -> None:
    async def main(loop: VirtualLoop) -> None:
        rung: list[tuple[str, float]] = []
        tasks = [asyncio.create_task(ticks(loop, name, rung)) for name in ("one", "other")]
        await asyncio.sleep(1.5)
        pause = loop.pause(lambda context: context.get(_owner) == "one")
        await asyncio.sleep(3)
        assert rung[2:] == [("other", 2), ("other", 3), ("other", 4)]
        pause.end()
        await asyncio.sleep(0.1)
        assert rung[5:] == [("one", 4.5)]
        await asyncio.sleep(1)
        assert rung[6:] == [("other", 5), ("one", 5.5)]
        for task in tasks:
            task.cancel()

    run_virtual(main)


def test_what_is_called_in_a_paused_context_comes_after_what_was_due_before() -> None:
    async def main(loop: VirtualLoop) -> None:
        rung: list[str] = []
        context = copy_context()
        context.run(_owner.set, "one")
        loop.call_in(context, lambda: rung.append("at once"))
        assert rung == ["at once"]
        loop.call_later(2, rung.append, "due before", context=context)
        pause = loop.pause(lambda context: context.get(_owner) == "one")
        await asyncio.sleep(3)
        loop.call_in(context, lambda: rung.append("in the pause"))
        await asyncio.sleep(3)
        assert rung == ["at once"]
        pause.end()
        await asyncio.sleep(0)
        assert rung == ["at once", "due before", "in the pause"]

    run_virtual(main)


def test_what_a_pause_holds_can_be_dropped() -> None:
    async def main(loop: VirtualLoop) -> None:
        rung: list[str] = []
        context = copy_context()
        context.run(_owner.set, "one")

        def belongs(context: Context) -> bool:
            return context.get(_owner) == "one"

        pause = loop.pause(belongs)
        await asyncio.sleep(0)
        loop.call_soon(rung.append, "held", context=context)
        await asyncio.sleep(1)
        loop.drop_callbacks(belongs)
        pause.end()
        await asyncio.sleep(1)
        assert rung == []

    run_virtual(main)
