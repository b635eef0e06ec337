from __future__ import annotations

import asyncio
import time

from ottla.kernel.clock import SystemClock


def test_now_is_the_wall_clock_in_ms() -> None:
    before_ms = int(time.time() * 1000)
    now_ms = SystemClock().now_ms()
    after_ms = int(time.time() * 1000) + 1
    assert before_ms <= now_ms <= after_ms


def test_monotonic_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_s() for _ in range(1000)]
    assert readings == sorted(readings)


def test_call_later_calls_in_order_of_delay_and_not_what_was_cancelled() -> None:
    called: list[str] = []

    async def scenario() -> None:
        clock = SystemClock()
        done = asyncio.Event()
        clock.call_later(0.02, done.set)
        clock.call_later(0.01, lambda: called.append("second"))
        clock.call_later(0.0, lambda: called.append("first"))
        clock.call_later(0.0, lambda: called.append("cancelled")).cancel()
        await done.wait()

    asyncio.run(scenario())
    assert called == ["first", "second"]
