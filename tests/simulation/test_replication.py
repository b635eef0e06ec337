"""Three brokers that are killed, cut off and led by one after another, while idempotent producers
with acks=all and readers go on: nothing that was acknowledged is lost or doubled, producers keep
their order, and what was read stays as it was.

A seed makes the run. A failure prints the seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import iter_headers
from ottla.records.record import iter_records
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.network import CLIENT
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.counts import count
from tests.support.other_process import printed_elsewhere
from tests.support.simulated_cluster import CONTROLLER, SimulatedCluster, host_of

SEEDS = range(count(200))

TOPIC = "t"
ASSIGNMENTS = ((1, 2, 3), (2, 3, 1))
PRODUCER_COUNT = 3
BATCH_COUNT = 50
FAULT_COUNT = 25
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "1000",
    "replica.socket.timeout.ms": "1000",
    "request.timeout.ms": "1000",
}


RETRIED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)


class World:
    """One run, from a seed."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = SimulatedCluster(loop, self.rng, 3, SETTINGS)
        self.cluster.latency_s_max = 0.3
        self.promised: dict[tuple[TopicPartition, int], bytes] = {}
        self.read: dict[tuple[TopicPartition, int], bytes] = {}
        self.is_over = False

    async def run(self) -> str:
        """The hash of everything that clients saw."""
        await self.cluster.start()
        await self.cluster.create_topic(TOPIC, *ASSIGNMENTS)
        background = [
            asyncio.create_task(each) for each in (self._control(), *map(self._read, self._all()))
        ]
        producers = [
            asyncio.create_task(self._produce_all(number)) for number in range(PRODUCER_COUNT)
        ]
        for _ in range(FAULT_COUNT):
            await asyncio.sleep(self.rng.uniform(0, 0.5))
            await self._fault()
        await self._mend()
        await asyncio.wait_for(asyncio.gather(*producers), 120)
        await self._settle()
        self.is_over = True
        await asyncio.gather(*background)
        self._check()
        seen = repr((self.promised, self.read, self.cluster.loop.now_s))
        await self.cluster.stop()
        return hashlib.sha256(seen.encode()).hexdigest()

    def _all(self) -> list[TopicPartition]:
        return list(self.cluster.partitions)

    # Clients

    async def _produce_all(self, number: int) -> None:
        sequences = Counter[TopicPartition]()
        for batch in range(BATCH_COUNT):
            topic_partition = self.rng.choice(self._all())
            await self._produce(
                topic_partition,
                b"%d-%d" % (number, batch),
                producer_id=1000 + number,
                producer_epoch=0,
                base_sequence=sequences[topic_partition],
            )
            sequences[topic_partition] += 1
            await asyncio.sleep(self.rng.uniform(0, 0.1))

    async def _produce(
        self, topic_partition: TopicPartition, value: bytes, **producer: int
    ) -> None:
        """Again and again, also to brokers that lead no more, until it is acknowledged."""
        while True:
            state = self.cluster.partitions[topic_partition]
            leader, leader_epoch = state.leader, state.leader_epoch
            broker_id = self.rng.choice([leader, leader, leader, 1, 2, 3])
            try:
                answer = await self.cluster.produce(
                    topic_partition, value, broker_id=broker_id, **producer
                )
            except OSError:
                answer = None
            if answer is not None and answer.error_code == ErrorCode.NONE:
                place = (topic_partition, answer.base_offset)
                assert place not in self.promised, f"{place} has two values"
                self.promised[place] = value
                return
            if answer is not None and answer.error_code not in RETRIED:
                # A leader that has not heard of its successor knows nothing of what that one took.
                error = ErrorCode(answer.error_code)
                assert error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, error.name
                assert (broker_id, leader_epoch) != (state.leader, state.leader_epoch), (
                    f"the leader of {topic_partition} lacks what was acknowledged: {error.name}"
                )
            await asyncio.sleep(0.05)

    async def _read(self, topic_partition: TopicPartition) -> None:
        position = 0
        while not self.is_over:
            asked = FetchPartition(
                partition=topic_partition.partition,
                fetch_offset=position,
                partition_max_bytes=100_000,
            )
            request = FetchRequest(
                max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
            )
            broker_id = self.rng.choice([1, 2, 3])
            try:
                response = await self.cluster.ask(broker_id, request, FetchResponse, 12)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            (data,) = response.responses[0].partitions
            if not data.error_code and isinstance(data.records, memoryview):
                for offset, value in _records(data.records):
                    if offset >= position:
                        self.read[topic_partition, offset] = value
                        position = offset + 1
            await asyncio.sleep(0.02)

    # The controller

    async def _control(self) -> None:
        while not self.is_over:
            await asyncio.sleep(0.05)
            for topic_partition in self._all():
                await self._elect(topic_partition)

    async def _elect(self, topic_partition: TopicPartition) -> None:
        """Takes dead brokers out of the ISR, but for the last, and chooses a leader that is in
        it."""
        state = self.cluster.partitions[topic_partition]
        alive = [each for each in state.isr if each in self.cluster.alive]
        isr = tuple(alive) or state.isr[:1]
        leader = state.leader if state.leader in isr else isr[0]
        if isr != state.isr or leader != state.leader:
            await self.cluster.elect(topic_partition, leader, isr)

    # Faults

    async def _fault(self) -> None:
        cluster, rng = self.cluster, self.rng
        one, other = rng.sample([1, 2, 3], 2)
        match rng.choice(("kill", "start", "start", "cut", "heal", "reset", "move", "zombie")):
            case "kill" if one in cluster.alive:
                cluster.kill(one)
            case "start" if one not in cluster.alive:
                await cluster.start(one)
            case "cut":
                cluster.network.cut(host_of(one), host_of(other))
            case "heal":
                await self._heal()
            case "reset":
                cluster.network.reset(host_of(one), rng.choice([host_of(other), CLIENT]))
            case "move":
                await self._move(rng.choice(self._all()))
            case "zombie" if one in cluster.alive:
                # It leads on without knowing that others are elected.
                cluster.isolate(one, CONTROLLER)
                for topic_partition in self._all():
                    if cluster.partitions[topic_partition].leader == one:
                        await self._move(topic_partition)

    async def _move(self, topic_partition: TopicPartition) -> None:
        state = self.cluster.partitions[topic_partition]
        others = [each for each in state.isr if each in self.cluster.alive and each != state.leader]
        if others:
            await self.cluster.elect(topic_partition, self.rng.choice(others))

    async def _heal(self) -> None:
        hosts = [*map(host_of, self.cluster.machines), CONTROLLER]
        for sender in hosts:
            for receiver in hosts:
                self.cluster.network.heal(sender, receiver)
        await self.cluster.tell()

    async def _mend(self) -> None:
        await self._heal()
        for broker_id in self.cluster.machines:
            if broker_id not in self.cluster.alive:
                await self.cluster.start(broker_id)

    # The end

    async def _settle(self) -> None:
        """Until all replicas are in sync and have the same."""
        for _ in range(600):
            await asyncio.sleep(0.1)
            if all(map(self._is_settled, self._all())):
                return
        pytest.fail("the replicas do not come together")

    def _is_settled(self, topic_partition: TopicPartition) -> bool:
        cluster = self.cluster
        hosted = [cluster.hosted(each, topic_partition) for each in cluster.machines]
        return (
            len(cluster.partitions[topic_partition].isr) == len(cluster.machines)
            and len({each.log.log_end_offset for each in hosted}) == 1
            and all(each.high_watermark == each.log.log_end_offset for each in hosted)
        )

    def _check(self) -> None:
        for topic_partition in self._all():
            logs = {self.cluster.log_of(each, topic_partition) for each in self.cluster.machines}
            assert len(logs) == 1, f"replicas of {topic_partition} differ"
            there = dict(_records(memoryview(logs.pop())))
            for what, places in (("acknowledged", self.promised), ("read", self.read)):
                for (of, offset), value in places.items():
                    if of == topic_partition:
                        found = there.get(offset)
                        assert found == value, (
                            f"{of}@{offset} was {what} as {value!r}, and is {found!r}"
                        )
            values = list(there.values())
            assert len(values) == len({*values}), f"a record of {topic_partition} is there twice"
            for number in range(PRODUCER_COUNT):
                own = [int(each[2:]) for each in values if each.startswith(b"%d-" % number)]
                assert own == sorted(own), f"{topic_partition} has {own} of producer {number}"
        assert len({*self.promised.values()}) == PRODUCER_COUNT * BATCH_COUNT


def _records(content: memoryview) -> Iterator[tuple[int, bytes]]:
    for position, header in iter_headers(content, allow_partial=True):
        for record in iter_records(content[position : position + header.size_bytes]):
            yield record.offset, bytes(record.value or b"")


def run_seed(seed: int) -> str:
    async def main(loop: VirtualLoop) -> str:
        return await World(loop, seed).run()

    try:
        return run_virtual(main)
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    run_seed(seed)


def test_a_seed_makes_the_same_run_in_every_process() -> None:
    code = "from tests.simulation.test_replication import run_seed; print(run_seed(0))"
    assert {printed_elsewhere(code, hash_seed=each).strip() for each in "12"} == {run_seed(0)}
