from __future__ import annotations

import asyncio

from ottla.kernel.eager import Done, begin
from ottla.server.request_slices import RequestSlices


async def _work(step_count: int) -> None:
    slices = RequestSlices()
    for _ in range(step_count):
        await slices.step()


def test_others_have_their_turn_during_a_long_request_and_not_during_a_short_one() -> None:
    async def main() -> None:
        assert isinstance(begin(_work(10)), Done)
        long = begin(_work(1000))
        assert isinstance(long, asyncio.Task)
        await asyncio.sleep(0)
        assert not long.done()
        await long

    asyncio.run(main())
