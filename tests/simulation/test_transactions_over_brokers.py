"""Transactions that write to two brokers, in virtual time. Broker 1 coordinates them and leads one
partition, broker 2 leads the other: it asks broker 1 before it appends, and broker 1 has it write
the markers. Either is killed and started again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from ottla.controller.topic_planning import NewTopic
from ottla.coordinators.transactions.markers import TransactionMarkers
from ottla.coordinators.transactions.transaction import Transaction
from ottla.coordinators.transactions.transaction_coordinator import TransactionCoordinator
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.internal_topics import TRANSACTION_STATE
from ottla.server import transaction_markers
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.server.transaction_verification import Codes, Question, TransactionVerification
from ottla.testing.loop import NothingLeft, VirtualLoop, run_virtual
from ottla.testing.network import SimulatedNetwork
from ottla.testing.store import MemoryEnsemble
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.schema import Request, Response
from tests.support.counts import count
from tests.support.elected_cluster import ElectedCluster, with_elected_cluster
from tests.support.simulated_broker import PORT, SimulatedBroker
from tests.support.simulated_transaction import Transactional, read

R = TypeVar("R", bound=Response)

NEAR, FAR = "near", "far"
TRANSACTION_COUNT = 20
KILL_COUNT = 6
BEGIN_TRIES_MAX = 1000
MUTANT_SEEDS_MAX = 150
UNREACHED = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE)
SETTINGS = {"transaction.state.log.num.partitions": "2"}


class Cluster:
    """Of two brokers, by their ids."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.rng = random.Random(seed)
        network, ensemble = SimulatedNetwork(loop, self.rng), MemoryEnsemble()
        self.brokers = {
            id: SimulatedBroker(
                loop,
                {"node.id": str(id), **SETTINGS},
                network=network,
                ensemble=ensemble,
                port=PORT + id,
            )
            for id in (1, 2)
        }
        self.committed: set[bytes] = set()
        """That their producer was told of."""
        self.unknown: set[bytes] = set()
        self.aborted: set[bytes] = set()

    async def start(self) -> None:
        for broker in self.brokers.values():
            await broker.machine.start()
        await asyncio.sleep(1)  # The controller has heard of both.
        controller = self.brokers[1].machine.broker.controller
        config = {"retention.ms": "-1"}
        for name, leaders in ((NEAR, [1]), (FAR, [2]), (TRANSACTION_STATE, [1, 1])):
            assignments = [(number, (leader,)) for number, leader in enumerate(leaders)]
            await controller.topics.create(NewTopic(name, assignments=assignments, config=config))
        await asyncio.sleep(1)

    async def kill_now_and_then(self) -> None:
        for _ in range(KILL_COUNT):
            await asyncio.sleep(self.rng.uniform(0, 3))
            broker = self.rng.choice(list(self.brokers.values()))
            broker.machine.kill()
            await asyncio.sleep(self.rng.uniform(0, 2))
            await broker.start()

    async def write(self) -> None:
        """One transaction after another, each with a record in both partitions."""
        near = Transactional(self.brokers[1])
        far = Transactional(self.brokers[2])
        for number in range(TRANSACTION_COUNT):
            await self._begin(near)
            far.producer = near.producer
            far._sequences.clear()
            value = str(number).encode()
            try:
                await asyncio.wait_for(self._run(near, far, value), 20)
            except (OSError, TimeoutError, _Refused):
                pass
            await asyncio.sleep(self.rng.uniform(0, 0.5))

    async def _begin(self, near: Transactional) -> None:
        """Whatever was left open before is aborted."""
        for _ in range(BEGIN_TRIES_MAX):
            try:
                if await asyncio.wait_for(near.init(), 20) is ErrorCode.NONE:
                    return
            except (OSError, TimeoutError, AssertionError):  # No coordinator is found.
                pass
            await asyncio.sleep(0.1)
        raise AssertionError("the transaction before is never ended")

    async def _run(self, near: Transactional, far: Transactional, value: bytes) -> None:
        self.aborted.add(value)
        for producer, topic in self.rng.sample([(near, NEAR), (far, FAR)], 2):
            code = ErrorCode.NOT_ENOUGH_REPLICAS
            while code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS):
                code = await producer.send(topic, value)
                await asyncio.sleep(0.02)
            if code is not ErrorCode.NONE:
                raise _Refused
        if self.rng.random() < 0.3:
            await near.end(is_commit=False)
            return
        self.aborted.discard(value)
        self.unknown.add(value)
        if await near.end(is_commit=True) is ErrorCode.NONE:
            self.unknown.discard(value)
            self.committed.add(value)

    async def check(self) -> None:
        await self._begin(Transactional(self.brokers[1]))
        await asyncio.sleep(60)
        near = await read(self.brokers[1], NEAR)
        far = await read(self.brokers[2], FAR)
        assert near == far, "a transaction is whole, and in its place"
        assert len(set(near)) == len(near)
        found = {value for value in near if value is not None}
        assert self.committed <= found <= self.committed | self.unknown
        assert not found & self.aborted


class _Refused(Exception):
    """The transaction is given up."""


def run_seed(seed: int) -> None:
    async def main(loop: VirtualLoop) -> None:
        cluster = Cluster(loop, seed)
        await cluster.start()
        killing = asyncio.ensure_future(cluster.kill_now_and_then())
        await cluster.write()
        await killing
        await cluster.check()
        assert cluster.committed, "nothing was written"
        for broker in cluster.brokers.values():
            await broker.machine.stop()

    run_virtual(main)


@pytest.mark.parametrize("seed", range(count(100)))
def test_a_transaction_is_whole_on_all_brokers(seed: int) -> None:
    run_seed(seed)


# -- what the seeds would find ------------------------------------------------------------------


def own_markers_only(patch: pytest.MonkeyPatch) -> None:
    """Partitions that this broker does not lead were taken for gone."""
    by_leader = TransactionMarkerWriter._by_leader

    async def own(
        self: TransactionMarkerWriter, partitions: list[TopicPartition]
    ) -> dict[int, list[TopicPartition]]:
        groups = await by_leader(self, partitions)
        return {leader: group for leader, group in groups.items() if leader == self._own_id}

    patch.setattr(TransactionMarkerWriter, "_by_leader", own)


def markers_once(patch: pytest.MonkeyPatch) -> None:
    """A broker that could not be reached was not asked again."""

    def is_over(at: TopicPartition, code: ErrorCode) -> bool:
        return True

    patch.setattr(transaction_markers, "_is_over", is_over)


def markers_not_resumed(patch: pytest.MonkeyPatch) -> None:
    """What a killed coordinator had prepared stayed so."""

    def finish_later(self: TransactionCoordinator, transaction: Transaction) -> None:
        pass

    patch.setattr(TransactionCoordinator, "finish_later", finish_later)


def unverified(patch: pytest.MonkeyPatch) -> None:
    """A leader appended though it could not ask the coordinator, which ends nothing there then."""
    ask = TransactionVerification.ask

    async def ask_or_guess(self: TransactionVerification, question: Question) -> Codes:
        return {
            at: ErrorCode.NONE if code in UNREACHED else code
            for at, code in (await ask(self, question)).items()
        }

    patch.setattr(TransactionVerification, "ask", ask_or_guess)


@pytest.mark.parametrize(
    "mutate", [own_markers_only, markers_once, markers_not_resumed, unverified]
)
def test_a_bug_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    for seed in range(MUTANT_SEEDS_MAX):
        try:
            run_seed(seed)
        except (AssertionError, NothingLeft) as error:
            print(f"found by seed {seed}: {error!r}")
            return
    pytest.fail(f"none of {MUTANT_SEEDS_MAX} seeds has found it")


class _Clients:
    """Of a cluster in which broker 1 coordinates, and 2 leads what is written to."""

    def __init__(self, cluster: ElectedCluster) -> None:
        self._cluster = cluster

    async def call(self, request: Request, response_class: type[R], version: int = -1) -> R:
        broker_id = 2 if isinstance(request, ProduceRequest) else 1
        return await self._cluster.ask(
            broker_id, request, response_class, None if version < 0 else version
        )


def test_a_new_coordinator_that_has_not_heard_of_a_topic_ends_transactions_there_all_the_same() -> (
    None
):
    """The controller, which also coordinates, dies before it has told broker 3 of the topic. Its
    successor tells that first of what it leads. The transaction was taken for complete without a
    marker, and held back all readers of committed records for ever."""

    async def test(cluster: ElectedCluster) -> None:
        assert cluster.controller_id == 1
        await cluster.create_topic(TRANSACTION_STATE, [1, 3], retention_ms="-1")
        third = cluster.broker(3)._state_changes
        tell = third.update_metadata

        async def tell_late(request: UpdateMetadataRequest) -> UpdateMetadataResponse:
            if request.controller_epoch == 1:
                await asyncio.sleep(3600)
            return await tell(request)

        third.update_metadata = tell_late  # type: ignore[method-assign]
        controller = cluster.broker(1).controller
        config = {"retention.ms": "-1"}
        await controller.topics.create(NewTopic(FAR, assignments=[(0, (2,))], config=config))
        await cluster.until(lambda: FAR in cluster.image(2).topics)

        async def not_yet(markers: TransactionMarkers) -> None:
            await asyncio.sleep(3600)

        cluster.broker(1).markers.write = not_yet  # type: ignore[method-assign]
        producer = Transactional(cast("SimulatedBroker", _Clients(cluster)))
        assert await producer.init() is ErrorCode.NONE
        assert await producer.send(FAR, b"x") is ErrorCode.NONE
        await producer.commit()
        cluster.alive.remove(1)
        cluster.machines[1].kill()
        assert FAR not in cluster.image(3).topics
        partition = cluster.broker(2).replicas.partition(FAR, 0)
        await cluster.until(lambda: partition.last_stable_offset == 2)

    with_elected_cluster(test, transaction_state_log_num_partitions="1")
