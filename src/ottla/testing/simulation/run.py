"""One run from a seed: a cluster, a workload and faults; then everything heals, and is checked."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import traceback
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.checker import find_anomalies
from ottla.testing.history.events import Acknowledged, Assigned, Event, Polled, PolledRecord
from ottla.testing.history.history import History
from ottla.testing.history.replica_log import ReplicaLog, read_replica_logs
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.faults import KINDS, Faults
from ottla.testing.simulation.group_consumer import GroupConsumer
from ottla.testing.simulation.idempotent_producer import IdempotentProducer
from ottla.testing.simulation.plan import Plan
from ottla.testing.simulation.reading import fetch_committed, list_end_offset
from ottla.testing.simulation.trace import Trace
from ottla.testing.simulation.transactional_producer import TransactionalProducer

HEALED_WITHIN_S = 60.0
QUIET_S = 5.0
"""After which every transaction is over: clients ask for 3 s, brokers look twice a second."""
SOURCE, TARGET, CHURNED = "source", "target", "churned"
SOURCES = tuple(TopicPartition(SOURCE, number) for number in range(2))
TARGETS = tuple(TopicPartition(TARGET, number) for number in range(2))


class Outcome(NamedTuple):
    plan: Plan
    problems: list[str]
    """None, when all is well."""
    digest: str
    """The same for the same seed and code."""
    lines: list[str]
    history: History


class _TracedHistory(History):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def add(self, event: Event) -> None:
        super().add(event)
        self._trace.note(str(event))


class _Run:
    """Lives as long as its loop."""

    def __init__(self, loop: VirtualLoop, plan: Plan) -> None:
        self.trace = Trace(loop)
        self.history = _TracedHistory(self.trace)
        self._loop = loop
        self._plan = plan
        self._rng = random.Random(plan.seed)
        self._cluster = SimulatedCluster(
            loop,
            self._rng,
            plan.broker_count,
            plan.settings,
            self.trace,
            session_timeout_s=plan.session_timeout_s,
            skew_ms_max=plan.skew_ms_max,
            has_slow_disks=plan.has_slow_disks,
        )
        self._clients: list[SimulatedClient] = []
        self._now_ms = VirtualClock(loop).now_ms
        self._admin = Admin(self._client("admin"))
        self._writers = self._make_writers()
        self._readers = [
            GroupConsumer(self._client(f"consumer{number}"), "readers", [SOURCE, TARGET])
            for number in range(2)
        ]
        self._faults = Faults(self._cluster, [each.name for each in self._clients])

    def _client(self, name: str) -> SimulatedClient:
        client = SimulatedClient(
            name,
            self._cluster.network.host(name),
            self._cluster.addresses,
            self._rng,
            self.history,
        )
        client.note = self.trace.note
        self._clients.append(client)
        return client

    def _make_writers(self) -> list[IdempotentProducer | TransactionalProducer]:
        producers = [
            IdempotentProducer(
                self._client(f"producer{number}"), SOURCES, self._now_ms, self._acknowledged
            )
            for number in range(2)
        ]
        copiers = [
            TransactionalProducer(
                self._client(f"copier{number}"),
                source,
                TARGETS,
                self._now_ms,
                is_version_2=self._rng.random() < 0.5,
                acknowledged=self._acknowledged,
            )
            for number, source in enumerate(SOURCES)
        ]
        return [*producers, *copiers]

    def _acknowledged(self, partition: TopicPartition) -> None:
        self._faults.acknowledged(partition)

    # -- the course of a run --------------------------------------------------------------------

    async def run(self) -> list[str]:
        """The problems that were found."""
        await self._within(60, self._cluster.start(), "the cluster starts")
        for topic in (SOURCE, TARGET):
            await self._within(
                60,
                self._admin.create_topic(topic, 2, 3, self._plan.topic_config),
                "topics are made",
            )
        writing = [self._loop.create_task(each.run()) for each in self._writers]
        reading = [self._loop.create_task(each.run()) for each in self._readers]
        await asyncio.sleep(1)
        await self._disturb()
        await self._until_healed()
        await self._make_progress()
        self._stop_clients("producer", "copier")
        await self._within(HEALED_WITHIN_S, _all(writing), "producers come to an end")
        await self._read_all()
        self._stop_clients("consumer")
        await self._within(HEALED_WITHIN_S, _all(reading), "consumers come to an end")
        for client in self._clients:
            client.close()
        await asyncio.sleep(QUIET_S)
        await self._until_healed()
        await self._within(HEALED_WITHIN_S, self._cluster.shut_down(), "brokers stop")
        anomalies = find_anomalies(self.history, self._replica_logs())
        return [str(each) for each in anomalies]

    async def _disturb(self) -> None:
        plan = self._plan
        self.trace.note(f"faults: {', '.join(plan.fault_kinds)}")
        churning = self._loop.create_task(self._churn()) if plan.has_admin else None
        self._faults.begin(*(KINDS[kind] for kind in plan.fault_kinds))
        await asyncio.sleep(plan.workload_s)
        if churning is not None:
            churning.cancel()
        self.trace.note("heal")
        await self._faults.heal()

    async def _churn(self) -> None:
        """Topics that nobody writes to come and go, one that is written to grows, and partitions
        move."""
        count = len(SOURCES)
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2))
            match self._rng.randrange(6):
                case 0 | 1:
                    await self._admin.create_topic(CHURNED, 2, 3, {})
                case 2:
                    await self._admin.delete_topic(CHURNED)
                case 3:
                    count += 1
                    await self._admin.grow_topic(SOURCE, count)
                case _:
                    replicas = self._rng.sample(sorted(self._cluster.machines), 3)
                    partition = self._rng.choice([*SOURCES, *TARGETS])
                    self.trace.note(f"move {partition} to {replicas}")
                    await self._admin.move_partition(partition, replicas)

    async def _until_healed(self) -> None:
        until_s = self._loop.now_s + HEALED_WITHIN_S
        while problems := self._cluster.unhealed():
            assert self._loop.now_s < until_s, f"not healed: {problems}"
            await asyncio.sleep(0.2)
        self.trace.note("healed")

    async def _make_progress(self) -> None:
        count = len(self.history)
        await asyncio.sleep(2)
        assert any(isinstance(event, Acknowledged) for event in self.history[count:]), (
            "the cluster has healed, and nothing is acknowledged any more"
        )

    def _stop_clients(self, *kinds: str) -> None:
        for client in self._clients:
            if client.name.startswith(kinds):
                client.is_stopping = True

    async def _within(self, longest_s: float, call: Coroutine[Any, Any, None], what: str) -> None:
        try:
            async with asyncio.timeout(longest_s):
                await call
        except TimeoutError:
            unhealed = self._cluster.unhealed()
            raise AssertionError(f"not within {longest_s:g} s: {what}; {unhealed}") from None

    # -- when it is over ------------------------------------------------------------------------

    async def _read_all(self) -> None:
        """To the end, by one who was not disturbed."""
        client = self._client("last")
        partitions = [*SOURCES, *TARGETS]
        self.history.add(Assigned(client.name, dict.fromkeys(partitions, 0)))
        for partition in partitions:
            await self._within(
                HEALED_WITHIN_S, self._read_to_end(client, partition), f"{partition} is read"
            )

    async def _read_to_end(self, client: SimulatedClient, partition: TopicPartition) -> None:
        end = await client.insist(
            lambda: list_end_offset(client, partition), gives_up_on=frozenset()
        )
        position = 0
        while position < end:
            records, position = await client.insist(
                partial(fetch_committed, client, partition, position), gives_up_on=frozenset()
            )
            polled = (PolledRecord(partition, offset, value) for offset, value in records)
            self.history.add(Polled(client.name, tuple(polled)))

    def _replica_logs(self) -> list[ReplicaLog]:
        """A broker that was away while a partition moved may keep its log: that is no replica."""
        replicas = {each: brokers for each, brokers, _ in self._cluster.partitions()}
        return [
            log
            for broker_id, machine in self._cluster.machines.items()
            for topic in (SOURCE, TARGET)
            for log in read_replica_logs(machine.disk, broker_id, "/data", topic)
            if broker_id in replicas[log.partition]
        ]


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


def run_plan(plan: Plan) -> Outcome:
    """Raises nothing: whatever goes wrong is a problem of the outcome."""

    async def main(loop: VirtualLoop) -> Outcome:
        run = _Run(loop, plan)
        loop.set_exception_handler(run.trace.unhandled)
        logger = logging.getLogger("ottla")
        logger.addHandler(run.trace)
        try:
            problems = await run.run()
        except Exception as error:
            problems = ["".join(traceback.format_exception(error))]
        finally:
            logger.removeHandler(run.trace)
        trace = run.trace
        return Outcome(plan, problems + trace.problems, trace.digest, trace.lines, run.history)

    # What a collection finds comes to its end in the midst of the run, whenever that is: the same
    # seed would make another run after others in the same process.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return run_virtual(main, rng=random.Random(plan.seed))
    finally:
        if was_enabled:
            gc.enable()
