"""A quiet cluster on which a scenario is played: something is done to brokers, in order, while a
client writes numbered records to one partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.testing.simulation.cluster import host_of
from ottla.testing.simulation.reading import fetch_committed, list_end_offset
from ottla.testing.simulation.sending import PRODUCE_FAILURES, Sequences, send_batch
from tests.support.quiet_cluster import T0, QuietCluster

NEVER = frozenset[ErrorCode]()


class Stage:
    def __init__(self, quiet: QuietCluster) -> None:
        self.quiet = quiet
        self.cluster = quiet.cluster
        self.client = quiet.client("writer")
        self.written: list[str] = []
        self._sequences = Sequences(ProducerIdAndEpoch(7, 0))
        self._cuts: list[tuple[str, str]] = []

    def leader(self, partition: TopicPartition = T0) -> int:
        leader = self.cluster.leader_of(partition)
        assert leader is not None
        return leader

    def others(self) -> list[int]:
        return [each for each in self.cluster.machines if each != self.leader()]

    def isr(self) -> set[int]:
        for each, _, state in self.cluster.partitions():
            if each == T0 and state is not None:
                return {*state.isr}
        return set()

    # -- clients ----------------------------------------------------------------------------------

    def write_anew(self) -> None:
        """Another writer, of a topic that has nothing yet."""
        self.written.clear()
        self.client.close()
        self.client = self.quiet.client("writer2")
        self._sequences = Sequences(ProducerIdAndEpoch(9, 0))

    async def write(self) -> None:
        """Until it is acknowledged."""
        value = str(len(self.written))
        batch = self._sequences.batch(T0, [value], self.quiet.now_ms())
        await self.client.insist(
            lambda: send_batch(self.client, T0, batch), gives_up_on=PRODUCE_FAILURES
        )
        self.written.append(value)

    async def read(self, partition: TopicPartition = T0) -> list[str]:
        """What is committed, to the end."""
        client = self.quiet.client("reader")
        end = await client.insist(lambda: list_end_offset(client, partition), gives_up_on=NEVER)
        values: list[str] = []
        position = 0
        async with asyncio.timeout(60):
            while position < end:
                at = position
                records, position = await client.insist(
                    lambda at=at: fetch_committed(client, partition, at),  # type: ignore[misc]
                    gives_up_on=NEVER,
                )
                values += [value for _, value in records]
        client.close()
        return values

    async def until(self, is_so: Callable[[], bool], longest_s: float = 60) -> None:
        async with asyncio.timeout(longest_s):
            while not is_so():
                await asyncio.sleep(0.05)

    # -- what is done to brokers ------------------------------------------------------------------

    def kill(self, *broker_ids: int) -> None:
        """For good."""
        for broker_id in broker_ids:
            self.cluster.wanted[broker_id] = False
            self.cluster.kill(broker_id)

    def cut(self, sender: int, receiver: int) -> None:
        """This way only."""
        self._cuts.append((host_of(sender), host_of(receiver)))
        self.cluster.network.cut(*self._cuts[-1])

    def isolate(self, broker_id: int) -> None:
        """From the other brokers and from the store. Clients reach it."""
        for other in self.cluster.machines:
            if other != broker_id:
                self.cut(broker_id, other)
                self.cut(other, broker_id)
        self.cluster.machines[broker_id].remote_store.cut()

    async def healed(self) -> None:
        for way in self._cuts:
            self.cluster.network.heal(*way)
        self._cuts.clear()
        for broker_id, machine in self.cluster.machines.items():
            self.cluster.resume(broker_id)
            self.cluster.wanted[broker_id] = True
            if machine.is_running:
                machine.remote_store.heal()
        await asyncio.sleep(1)
        await self.until(lambda: not self.cluster.unhealed())
