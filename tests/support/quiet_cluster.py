"""A simulated cluster that nothing disturbs but what a test does to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.history import History
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.trace import Trace

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class QuietCluster:
    def __init__(self, loop: VirtualLoop, broker_count: int, seed: int) -> None:
        self.loop = loop
        self.history = History()
        self.trace = Trace(loop)
        self.cluster = SimulatedCluster(
            loop,
            random.Random(seed),
            broker_count,
            draw_plan(0).settings,
            self.trace,
            session_timeout_s=1.5,
        )
        self.now_ms = VirtualClock(loop).now_ms
        self.acknowledged: list[TopicPartition] = []

    def client(self, name: str) -> SimulatedClient:
        return SimulatedClient(
            name,
            self.cluster.network.host(name),
            self.cluster.addresses,
            self.cluster.rng,
            self.history,
        )

    def events(self, kind: type) -> list[object]:
        return [event for event in self.history if isinstance(event, kind)]


def with_quiet_cluster(
    test: Callable[[QuietCluster], Awaitable[None]], *, broker_count: int = 3, seed: int = 0
) -> None:
    """With a topic `t` of two partitions."""

    async def main(loop: VirtualLoop) -> None:
        quiet = QuietCluster(loop, broker_count, seed)
        with quiet.trace.listening():
            await quiet.cluster.start()
            admin = quiet.client("admin")
            await Admin(admin).create_topic("t", 2, 3, {"internal.segment.bytes": "1024"})
            admin.close()
            await asyncio.sleep(1)  # Until every broker has heard of it.
            await test(quiet)
            await quiet.cluster.shut_down()

    run_virtual(main)
