from __future__ import annotations

from functools import partial

from ottla.server.fetch_sessions.wait import Wait
from ottla.testing.loop import VirtualClock
from tests.support.simulated_broker import SimulatedBroker, with_broker


def waited_s(*byte_counts: int, missing_byte_count: int = 10) -> float:
    """So many bytes come, one lot a second; at most a minute is waited."""
    waited: list[float] = []

    async def test(broker: SimulatedBroker) -> None:
        clock = VirtualClock(broker.loop)
        began_s = clock.monotonic_s()
        wait = Wait(clock, 60.0, missing_byte_count, is_committed_only=False)
        for second, byte_count in enumerate(byte_counts, 1):
            clock.call_later(second, partial(wait.bytes_added, byte_count))
        await wait.finished()
        waited.append(clock.monotonic_s() - began_s)

    with_broker(test)
    return round(waited[0], 6)


def test_it_ends_with_enough_bytes() -> None:
    assert waited_s(4, 5, 1, 7) == 3


def test_it_ends_when_its_time_is_over() -> None:
    assert waited_s(4, 5) == 60


def test_more_bytes_after_its_end_are_none_of_its_business() -> None:
    assert waited_s(10, 10) == 1
