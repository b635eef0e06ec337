from __future__ import annotations

import asyncio

import pytest

from ottla.coordinators.runtime import Runtime
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.unit.coordinators.test_shard import PRODUCER, Counters


async def runtime_over(broker: SimulatedBroker, partition_count: int) -> Runtime[Counters]:
    await broker.create_topic("state", partition_count, cleanup_policy="compact")
    return lead_all(broker, partition_count)


def lead_all(broker: SimulatedBroker, partition_count: int) -> Runtime[Counters]:
    runtime = Runtime(Counters, VirtualClock(broker.loop))
    runtime.partition_count = partition_count
    for number in range(partition_count):
        runtime.become_leader(broker.machine.broker.replicas.partition("state", number))
    return runtime


def test_a_key_belongs_to_the_partition_of_its_java_hash() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 50)
        # As Kafka computes them: "g".hashCode() is 103; the other hash is -2^31.
        assert runtime.partition_of("g") == 103 % 50
        assert runtime.partition_of("polygenelubricants") == 0

    with_broker(test)


def test_shards_keep_their_own_and_are_loaded_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        for name in ("a", "b", "c", "a"):
            await runtime.write(name, lambda s, name=name: s.add(name))  # type: ignore[misc]
        counts = {"a": 2, "b": 1, "c": 1}
        found: dict[str, int] = {}
        for shard_counts in runtime.read_all(lambda s: dict(s.counts)):
            assert not shard_counts.keys() & found.keys()
            found |= shard_counts
        assert found == counts
        await runtime.close()

        again = lead_all(broker, 3)
        with pytest.raises(KafkaError) as raised:
            again.read("a", lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        assert {name: again.read(name, lambda s, n=name: s.counts[n]) for name in counts} == counts  # type: ignore[misc]

    with_broker(test)


def test_what_this_broker_does_not_lead_is_not_its_business() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        runtime.resign(0)
        with pytest.raises(KafkaError) as raised:
            await runtime.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        nothing: Runtime[Counters] = Runtime(Counters, VirtualClock(broker.loop))
        with pytest.raises(KafkaError) as raised:
            await nothing.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_broker(test)


def test_a_shard_that_cannot_be_read_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        for name in ("a", "b", "c"):
            await runtime.write(name, lambda s, name=name: s.add(name))  # type: ignore[misc]
        await runtime.close()
        failing = runtime.partition_of("a")
        path = f"/data/state-{failing}/00000000000000000000.log"
        broker.machine.disk.fail(Fault("read_at", path))
        again = lead_all(broker, 3)
        await asyncio.sleep(1)
        for name in ("b", "c"):
            assert again.read(name, lambda s, n=name: s.counts[n]) == 1  # type: ignore[misc]
        with pytest.raises(KafkaError) as raised:
            again.read("a", lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert f"state-{failing} cannot be loaded" in caplog.text
        await again.close()

    with_broker(test)


def test_a_transaction_that_ends_is_told_to_the_shard_of_the_partition() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        number = runtime.partition_of("a")
        partition = broker.machine.broker.replicas.partition("state", number)
        guard = partition.begin_verification(*PRODUCER, -1, supports_epoch_bump=True)
        await runtime.write_transactional("a", PRODUCER, lambda s: s.add("a"), guard=guard)
        runtime.transaction_ended((number + 1) % 3, PRODUCER.producer_id, is_commit=True)
        assert runtime.read("a", lambda s: s.counts) == {}
        runtime.transaction_ended(number, PRODUCER.producer_id, is_commit=True)
        assert runtime.read("a", lambda s: s.counts) == {"a": 1}
        runtime.resign(number)
        runtime.transaction_ended(number, PRODUCER.producer_id, is_commit=True)

    with_broker(test)
