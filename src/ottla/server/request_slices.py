"""Long requests, worked through in pieces."""

from __future__ import annotations

import asyncio

_STEPS = 64
"""Of some 25 µs each: others wait for a millisecond or two."""


class RequestSlices:
    """Owned by one request. A coroutine that waits for nothing runs to its end where it was called;
    a request of 8 MB that asks for a million small things would keep the loop for a minute."""

    def __init__(self) -> None:
        self._count = 0

    async def step(self) -> None:
        """Before each of the small things: now and then others go first."""
        self._count += 1
        if self._count % _STEPS == 0:
            await asyncio.sleep(0)
