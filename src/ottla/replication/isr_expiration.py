"""Judges every second which followers of this broker's partitions are in sync.

A follower that has not caught up for `replica.lag.time.max.ms` leaves the ISR. One that may be in
it joins with its fetch; here it does so where that was not possible then, because another change
was under way or was refused.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable

from ottla.kernel.clock import Clock
from ottla.kernel.slices import Slices
from ottla.replication.leader import Leader

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0

STALL_S = 1.0
"""A broker that is late by this much has not heard followers, and they have not heard it."""


class IsrExpiration:
    """Owned by the broker, from start to stop. It keeps nothing that a crash could lose."""

    def __init__(self, leaders: Callable[[], Iterable[Leader]], clock: Clock) -> None:
        self._leaders = leaders
        self._clock = clock
        self._since_s = -math.inf
        """Since when followers are judged: after a stall each has the whole time anew. It waits for
        an answer to the fetch that it sent before, and asks again only then."""

    async def run(self) -> None:
        """For ever."""
        while True:
            began_s = self._clock.monotonic_s()
            await asyncio.sleep(INTERVAL_S)
            now_s = self._clock.monotonic_s()
            if now_s - began_s > INTERVAL_S + STALL_S:
                logger.warning(
                    "this broker stood still for %.1f s: its followers are judged anew",
                    now_s - began_s - INTERVAL_S,
                )
                self._since_s = now_s
            async for leader in Slices(self._clock).of(list(self._leaders())):
                try:
                    leader.judge_isr(since_s=self._since_s)
                except Exception:  # A bug of ours must not keep all others from being judged.
                    logger.exception("the ISR of %s could not be judged", leader.topic_partition)
