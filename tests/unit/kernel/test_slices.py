from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.kernel.eager import Done, begin
from ottla.kernel.slices import SLICE_S, Slices, at_once, sorted_in_steps, taking


class SteppingClock:
    """Each look at it takes a tenth of a slice."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_ms(self) -> int:
        return int(self._now_s * 1000)

    def monotonic_s(self) -> float:
        self._now_s += SLICE_S / 10
        return self._now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        raise NotImplementedError("slices set no timers")


async def _steps(count: int) -> None:
    slices = Slices(SteppingClock())
    for _ in range(count):
        await slices.step()


async def _things(count: int) -> list[int]:
    return [number async for number in Slices(SteppingClock()).of(range(count))]


async def _distinct(count: int) -> list[int]:
    return await Slices(SteppingClock()).distinct(range(count), lambda number: number % 100)


def test_others_have_their_turn_during_long_work_and_not_during_short_work() -> None:
    async def main() -> None:
        for work in (_steps, _things, _distinct):
            assert isinstance(begin(work(5)), Done)
            long = begin(work(1000))
            assert isinstance(long, asyncio.Task)
            await asyncio.sleep(0)
            assert not long.done()
            await long

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 1, 256, 1000])
def test_what_is_sorted_in_steps_is_sorted(count: int) -> None:
    things = [(number * 7919 % 1009, number) for number in range(count)]
    assert at_once(sorted_in_steps(things)) == sorted(things)
    steps = sorted_in_steps(things, key=lambda thing: thing[0])
    assert at_once(steps) == sorted(things, key=lambda thing: thing[0])
    assert asyncio.run(Slices(SteppingClock()).run(sorted_in_steps(things))) == sorted(things)


def test_a_table_is_emptied() -> None:
    table = dict.fromkeys(range(1000))
    asyncio.run(Slices(SteppingClock()).empty(table))
    assert table == {}


def test_all_things_come_in_order_and_each_name_once() -> None:
    async def main() -> None:
        assert await _things(1000) == list(range(1000))
        assert await _distinct(1000) == list(range(100))

    asyncio.run(main())


def test_what_is_taken_from_a_list_is_not_kept_by_it() -> None:
    things = [object() for _ in range(3)]
    first, second, third = things
    left = [(thing, list(things)) for thing in taking(things)]
    assert left == [(first, [third, second]), (second, [third]), (third, [])]
