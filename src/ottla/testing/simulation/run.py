"""One run from a seed: a cluster, a workload and faults; then everything heals, and is checked."""

from __future__ import annotations

import asyncio
import gc
import random
import traceback
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.testing.history.checker import find_anomalies
from ottla.testing.history.events import Acknowledged, Assigned, Event, Polled, PolledRecord
from ottla.testing.history.facts import Facts
from ottla.testing.history.history import History
from ottla.testing.history.replica_log import ReplicaLog, read_replica_logs
from ottla.testing.history.replicas import check_replicas
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.churn import CHURNED, Churn
from ottla.testing.simulation.client import Refused, SimulatedClient
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.consumer_group_member import ConsumerGroupMember
from ottla.testing.simulation.entry import Entry, Mark
from ottla.testing.simulation.event_text import described
from ottla.testing.simulation.exercised import count_exercised
from ottla.testing.simulation.fault_kinds import KINDS
from ottla.testing.simulation.faults import TRANSACTION_STEP, Faults
from ottla.testing.simulation.group_consumer import GroupConsumer
from ottla.testing.simulation.idempotent_producer import IdempotentProducer
from ottla.testing.simulation.observer import Observer
from ottla.testing.simulation.plan import Plan
from ottla.testing.simulation.reading import (
    fetch_committed,
    list_end_offset,
    list_start_offset,
    start_above,
)
from ottla.testing.simulation.replica_states import find_differences
from ottla.testing.simulation.trace import Trace
from ottla.testing.simulation.transactional_producer import TransactionalProducer

HEALED_WITHIN_S = 60.0
QUIET_S = 5.0
"""After which every transaction is over: clients ask for 3 s, brokers look twice a second."""
SOURCE, TARGET = "source", "target"
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
SOURCES = tuple(TopicPartition(SOURCE, number) for number in range(2))
TARGETS = tuple(TopicPartition(TARGET, number) for number in range(2))


class Outcome(NamedTuple):
    plan: Plan
    problems: list[str]
    """None, when all is well."""
    digest: str
    """The same for the same seed and code."""
    entries: list[Entry]
    history: History
    faults: list[str]
    """Those that took place, by name, in order."""
    exercised: dict[str, int]
    combinations: frozenset[str]
    """The states that partitions were in."""


class _TracedHistory(History):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def add(self, event: Event) -> None:
        super().add(event)
        mark, text = described(event)
        self._trace.note(text, event.client, mark)


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
        member = ConsumerGroupMember if plan.is_consumer_protocol else GroupConsumer
        self._readers = [
            member(self._client(f"consumer{number}"), "readers", [SOURCE, TARGET])
            for number in range(2)
        ]
        self._churn = Churn(
            self._client("churn", History()),  # A new topic may have the name of one before.
            [*SOURCES, *TARGETS],
            sorted(self._cluster.machines),
            self._now_ms,
        )
        self.observer = Observer(self._cluster)
        self.faults = Faults(self._cluster, [each.name for each in self._clients], plan.kept_faults)

    def _client(self, name: str, history: History | None = None) -> SimulatedClient:
        client = SimulatedClient(
            name,
            self._cluster.network.host(name),
            self._cluster.addresses,
            self._rng,
            self.history if history is None else history,
        )
        client.note = partial(self.trace.note, host=name, mark=Mark.RETRY)
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
                SOURCES[0] if self._plan.has_rivals else source,
                TARGETS,
                self._now_ms,
                is_version_2=self._rng.random() < 0.5,
                acknowledged=self._acknowledged,
                asking_coordinator=self._asking_coordinator,
                transactional_id="rivals" if self._plan.has_rivals else None,
            )
            for number, source in enumerate(SOURCES)
        ]
        return [*producers, *copiers]

    def _acknowledged(self, partition: TopicPartition) -> None:
        self.faults.acknowledged(partition)

    def _asking_coordinator(self, broker_id: int) -> None:
        self.faults.happened(TRANSACTION_STEP, broker_id)

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
        observing = self._loop.create_task(self.observer.run())
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
        await _end(observing)
        differences = find_differences(self._cluster)
        await self._within(HEALED_WITHIN_S, self._cluster.shut_down(), "brokers stop")
        anomalies = find_anomalies(self.history, self._replica_logs(SOURCE, TARGET))
        anomalies += check_replicas(Facts((), {}), self._replica_logs(*INTERNAL_TOPICS))
        return [
            *map(str, anomalies),
            *self._churn.problems(self._replica_logs(SOURCE, TARGET, CHURNED)),
            *self.observer.problems,
            *differences,
        ]

    async def _disturb(self) -> None:
        plan = self._plan
        self.trace.note(f"faults: {', '.join(plan.fault_kinds)}")
        churning = self._loop.create_task(self._churn.run()) if plan.has_admin else None
        self.faults.begin(*(KINDS[kind] for kind in plan.fault_kinds))
        await asyncio.sleep(plan.workload_s)
        if churning is not None:
            await _end(churning)
        self.trace.note("heal")
        await self.faults.heal()

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

    def exercised(self) -> dict[str, int]:
        rebalances = sum(each.rebalance_count for each in self._readers)
        return count_exercised(self._cluster, self.history, self.faults.names, rebalances)

    async def _read_all(self) -> None:
        """To the end, from every replica, by those who were not disturbed."""
        clients = {each: self._client(f"last{each}") for each in self._cluster.machines}
        for partition, replicas, _ in list(self._cluster.partitions()):
            if partition in (*SOURCES, *TARGETS):
                for replica in replicas:
                    await self._within(
                        HEALED_WITHIN_S,
                        self._read_to_end(clients[replica], partition, replica),
                        f"{partition} is read from {replica}",
                    )

    async def _read_to_end(
        self, client: SimulatedClient, partition: TopicPartition, replica: int
    ) -> None:
        end = await client.insist(
            lambda: list_end_offset(client, partition), gives_up_on=frozenset()
        )
        position = await client.insist(
            lambda: list_start_offset(client, partition), gives_up_on=frozenset()
        )
        self.history.add(Assigned(client.name, {partition: position}))
        asked: int | None = replica
        while position < end:
            try:
                records, position = await client.insist(
                    partial(fetch_committed, client, partition, position, replica=asked),
                    gives_up_on=frozenset({ErrorCode.OFFSET_OUT_OF_RANGE}),
                )
            except Refused:  # Retention goes on, and each replica has segments of its own.
                start = await start_above(client, partition, position)
                asked = None if start == position else replica
                position = start
                self.history.add(Assigned(client.name, {partition: position}))
                continue
            asked = replica
            polled = (PolledRecord(partition, offset, value) for offset, value in records)
            self.history.add(Polled(client.name, tuple(polled)))

    def _replica_logs(self, *topics: str) -> list[ReplicaLog]:
        """A broker that was away while a partition moved may keep its log: that is no replica."""
        replicas = {each: brokers for each, brokers, _ in self._cluster.partitions()}
        return [
            log
            for broker_id, machine in self._cluster.machines.items()
            for topic in topics
            for log in read_replica_logs(machine.disk, broker_id, "/data", topic)
            if broker_id in replicas.get(log.partition, ())
        ]


async def _end(task: asyncio.Task[None]) -> None:
    """One that goes on for ever, unless it fails."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


def run_plan(plan: Plan) -> Outcome:
    """Raises nothing: whatever goes wrong is a problem of the outcome."""

    async def main(loop: VirtualLoop) -> Outcome:
        run = _Run(loop, plan)
        loop.set_exception_handler(run.trace.unhandled)
        with run.trace.listening():
            try:
                problems = await run.run()
            except Exception as error:
                problems = ["".join(traceback.format_exception(error))]
        trace = run.trace
        return Outcome(
            plan,
            problems + trace.problems,
            trace.digest,
            trace.entries,
            run.history,
            run.faults.names,
            run.exercised(),
            frozenset(run.observer.combinations),
        )

    with _collected_at_the_end():
        return run_virtual(main, rng=random.Random(plan.seed), has_priorities=plan.has_priorities)


@contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """What is freed ends coroutines and closes files: in the midst of a run that would depend on
    what the process has done before."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        if was_enabled:
            gc.enable()
