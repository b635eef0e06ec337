from __future__ import annotations

import asyncio

from ottla.kernel.loop_lag import PERIOD_S, LoopLag
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual


class LateClock(VirtualClock):
    """Beyond the loop's by what a test says has passed in one turn."""

    late_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.late_s


def test_the_longest_turn_is_known_for_a_minute_or_two() -> None:
    async def main(loop: VirtualLoop) -> None:
        clock = LateClock(loop)
        lag = LoopLag(clock)
        task = asyncio.create_task(lag.run())
        await asyncio.sleep(1)
        assert lag.max_s < 0.001
        clock.late_s = 0.7
        await asyncio.sleep(1)
        assert 0.69 < lag.max_s < 0.71
        await asyncio.sleep(PERIOD_S)
        assert lag.max_s > 0.69
        await asyncio.sleep(PERIOD_S + 1)
        assert lag.max_s < 0.001
        task.cancel()

    run_virtual(main)
