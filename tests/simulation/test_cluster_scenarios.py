"""What has gone wrong in Kafka's clusters, or nearly, made to happen in order: brokers with their
controllers on simulated hosts, each scenario over several seeds of delays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.coordination import znodes
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.testing.history.replica_log import read_replica_logs
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.client import Refused
from ottla.testing.simulation.reading import fetch_committed, list_end_offset
from ottla.testing.simulation.sending import PRODUCE_FAILURES, Sequences, send_batch
from tests.support.counts import count
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster

SEEDS = range(count(20))
NEVER = frozenset[ErrorCode]()

Scenario = Callable[["Stage"], Awaitable[None]]


class Stage:
    """A cluster, and a client that writes numbered records to one partition."""

    def __init__(self, quiet: QuietCluster) -> None:
        self.quiet = quiet
        self.cluster = quiet.cluster
        self.client = quiet.client("writer")
        self.written: list[str] = []
        self._sequences = Sequences(ProducerIdAndEpoch(7, 0))

    def leader(self, partition: TopicPartition = T0) -> int:
        leader = self.cluster.leader_of(partition)
        assert leader is not None
        return leader

    def others(self) -> list[int]:
        return [each for each in self.cluster.machines if each != self.leader()]

    async def write(self) -> None:
        """Until it is acknowledged."""
        value = str(len(self.written))
        batch = self._sequences.batch(T0, [value], self.quiet.now_ms())
        await self.client.insist(
            lambda: send_batch(self.client, T0, batch), gives_up_on=PRODUCE_FAILURES
        )
        self.written.append(value)

    async def read(self) -> list[str]:
        client = self.quiet.client("reader")
        end = await client.insist(lambda: list_end_offset(client, T0), gives_up_on=NEVER)
        values: list[str] = []
        position = 0
        while position < end:
            at = position
            records, position = await client.insist(
                lambda at=at: fetch_committed(client, T0, at),  # type: ignore[misc]
                gives_up_on=NEVER,
            )
            values += [value for _, value in records]
        client.close()
        return values

    async def until(self, is_so: Callable[[], bool], longest_s: float = 60) -> None:
        async with asyncio.timeout(longest_s):
            while not is_so():
                await asyncio.sleep(0.05)

    async def healed(self) -> None:
        for broker_id in self.cluster.machines:
            self.cluster.resume(broker_id)
            self.cluster.wanted[broker_id] = True
        await asyncio.sleep(1)
        await self.until(lambda: not self.cluster.unhealed())

    def kill(self, *broker_ids: int) -> None:
        """For good."""
        for broker_id in broker_ids:
            self.cluster.wanted[broker_id] = False
            self.cluster.kill(broker_id)

    def isr(self) -> set[int]:
        for each, _, state in self.cluster.partitions():
            if each == T0 and state is not None:
                return {*state.isr}
        return set()


async def zombie_leader(stage: Stage) -> None:
    """It stands still, another leads, and it wakes up as one who does not know."""
    await stage.write()
    zombie = stage.leader()
    stage.cluster.pause(zombie)
    await stage.until(lambda: stage.leader() != zombie)
    await stage.write()
    stray = stage.quiet.client("stray")
    batch = Sequences(ProducerIdAndEpoch(8, 0)).batch(T0, ["stray"], stage.quiet.now_ms())
    stray._leaders[T0] = zombie
    sending = asyncio.create_task(send_batch(stray, T0, batch))
    await asyncio.sleep(stage.cluster.rng.uniform(0, 1))
    stage.cluster.resume(zombie)
    with pytest.raises((Refused, OSError)):
        await sending
    await stage.healed()
    await stage.write()
    stray.close()


async def stale_controller(stage: Stage) -> None:
    """It stands still over an election of another, which decides something. Then it goes on."""
    stale = stage.cluster.controller_id()
    assert stale is not None
    await stage.write()
    admin = stage.quiet.client("late")
    creating = asyncio.create_task(Admin(admin).create_topic("u", 1, 3, {}))
    await asyncio.sleep(stage.cluster.rng.uniform(0, 0.05))
    stage.cluster.pause(stale)
    await stage.until(lambda: stage.cluster.controller_id() not in (None, stale))
    await creating
    await stage.write()
    stage.cluster.resume(stale)
    await stage.healed()
    await stage.write()
    assert "u" in stage.cluster.ensemble.children(znodes.TOPICS)
    admin.close()


async def sessions_lost_together(stage: Stage) -> None:
    """KAFKA-2729: after the sessions of the controller and of a leader, the leader could change its
    ISR no more."""
    await stage.write()
    for broker_id in {stage.leader(), stage.cluster.controller_id()}:
        assert broker_id is not None
        stage.cluster.machines[broker_id].expire_session()
    await asyncio.sleep(stage.cluster.rng.uniform(0, 2))
    await stage.healed()
    gone = stage.others()[0]
    stage.kill(gone)
    await stage.until(lambda: gone not in stage.isr())
    await stage.write()
    await stage.healed()
    assert stage.isr() == {*stage.cluster.machines}


async def last_replica_standing(stage: Stage) -> None:
    """KIP-966: the last of the ISR loses what it had not synced. Those who fell out before it have
    everything that was acknowledged."""
    for _ in range(3):
        await stage.write()
    last = stage.leader()
    for broker_id in stage.others():
        stage.kill(broker_id)
        await stage.until(lambda: broker_id not in stage.isr())  # noqa: B023
    assert stage.isr() == {last}
    stage.cluster.wanted[last] = False
    stage.cluster.lose_power(last)
    await asyncio.sleep(stage.cluster.rng.uniform(0, 3))
    await stage.healed()
    await stage.write()


async def deletion_met_by_a_return(stage: Stage) -> None:
    """A broker was away when a topic was deleted and made again. It has the old log, and must not
    take it for the new one."""
    await stage.write()
    gone = stage.others()[0]
    stage.kill(gone)
    admin = stage.quiet.client("late")
    await stage.until(lambda: gone not in stage.isr())
    deleting = asyncio.create_task(Admin(admin).delete_topic("t"))
    await asyncio.sleep(stage.cluster.rng.uniform(0, 3))
    await stage.healed()
    await deleting
    await stage.until(lambda: "t" not in stage.cluster.ensemble.children(znodes.TOPICS))
    await Admin(admin).create_topic("t", 2, 3, {})
    stage.written.clear()
    stage.client.close()
    stage.client = stage.quiet.client("writer2")
    stage._sequences = Sequences(ProducerIdAndEpoch(9, 0))
    await stage.healed()
    await stage.write()
    admin.close()


SCENARIOS = (
    zombie_leader,
    stale_controller,
    sessions_lost_together,
    last_replica_standing,
    deletion_met_by_a_return,
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_replica_has_what_was_acknowledged_and_nothing_else(
    scenario: Scenario, seed: int
) -> None:
    async def test(quiet: QuietCluster) -> None:
        stage = Stage(quiet)
        await scenario(stage)
        await stage.healed()
        assert await stage.read() == stage.written
        stage.client.close()
        await asyncio.sleep(1)
        for broker_id, machine in stage.cluster.machines.items():
            for log in read_replica_logs(machine.disk, broker_id, "/data", "t"):
                if log.partition == T0:
                    values = [value for batch in log.batches for _, value in batch.values]
                    assert values == stage.written, f"on broker {broker_id}"
        assert quiet.trace.problems == []

    with_quiet_cluster(test, seed=seed)
