from __future__ import annotations

import asyncio

import pytest

from ottla.coordinators.runtime import Runtime
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import ATTRIBUTES_AT, LENGTH_AT, MAGIC_AT
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.unit.coordinators.test_shard import PRODUCER, TIMEOUT_MS, Counters


async def runtime_over(broker: SimulatedBroker, partition_count: int) -> Runtime[Counters]:
    await broker.create_topic("state", partition_count, cleanup_policy="compact")
    return lead_all(broker, partition_count)


def lead_all(broker: SimulatedBroker, partition_count: int) -> Runtime[Counters]:
    runtime = Runtime(Counters, VirtualClock(broker.loop), TIMEOUT_MS)
    runtime.partition_count = partition_count
    for number in range(partition_count):
        runtime.become_leader(broker.machine.broker.replicas.partition("state", number).leader)
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
        for shard_counts in await runtime.read_all(lambda s: dict(s.counts)):
            assert not shard_counts.keys() & found.keys()
            found |= shard_counts
        assert found == counts
        await runtime.close()

        again = lead_all(broker, 3)
        with pytest.raises(KafkaError) as raised:
            await again.read("a", lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        for name, count in counts.items():
            assert (await again.read(name, lambda s: s.counts))[name] == count

    with_broker(test)


def test_what_this_broker_does_not_lead_is_not_its_business() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        runtime.resign(0)
        with pytest.raises(KafkaError) as raised:
            await runtime.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        nothing: Runtime[Counters] = Runtime(Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        with pytest.raises(KafkaError) as raised:
            await nothing.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_broker(test)


def test_a_shard_that_cannot_be_read_has_a_disk_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        for name in ("a", "b", "c"):
            await runtime.write(name, lambda s, name=name: s.add(name))  # type: ignore[misc]
        await runtime.close()
        failing = runtime.partition_of("a")
        path = f"/data/state-{failing}/00000000000000000000.log"
        broker.machine.disk.fail(Fault("read_at", path, count=1))
        again = lead_all(broker, 3)
        await asyncio.sleep(1)
        for name in ("a", "b", "c"):
            # The disk of one is that of all.
            with pytest.raises(KafkaError) as raised:
                await again.write(name, lambda s, n=name: s.add(n))  # type: ignore[misc]
            assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert f"state-{failing} cannot be loaded" in caplog.text
        assert broker.machine.broker.logs.folders[0].failure is not None
        await again.close()
        broker.machine.kill()
        await broker.machine.start()

    with_broker(test)


def patch(broker: SimulatedBroker, path: str, position: int, content: bytes) -> None:
    file = broker.machine.disk.open(path)
    file.write_at(position, (content,))
    file.close()


@pytest.mark.parametrize(
    ("at", "content"),
    [
        pytest.param(MAGIC_AT, b"\x07", id="magic"),
        pytest.param(LENGTH_AT, b"\xff\xff\xff\xff", id="negative length"),
        pytest.param(LENGTH_AT, b"\x7f\xff\xff\xff", id="huge length"),
        pytest.param(LENGTH_AT, b"\x00\x00\x00\x01", id="tiny length"),
        pytest.param(ATTRIBUTES_AT + 2, b"\xff\xff\xff\xf0", id="negative offset delta"),
    ],
)
@pytest.mark.parametrize("batch", [0, 1])
def test_a_damaged_log_is_told_of_once_with_its_remedy(
    at: int, content: bytes, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        for _ in range(3):
            await runtime.write("a", lambda s: s.add("a"))
        await runtime.close()
        path = "/data/state-0/00000000000000000000.log"
        size = broker.machine.disk.size(path) // 3
        patch(broker, path, batch * size + at, content)
        again = lead_all(broker, 1)
        await asyncio.sleep(600)
        with pytest.raises(KafkaError) as raised:
            await again.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert not again.leads(0)
        await again.close()
        # The remedy:
        await broker.machine.stop()
        for name in broker.machine.disk.list_folder("/data/state-0"):
            if name.startswith("0"):
                broker.machine.disk.remove(f"/data/state-0/{name}")
        await broker.machine.start()
        mended = lead_all(broker, 1)
        await asyncio.sleep(1)
        assert await mended.write("a", lambda s: s.add("a")) == 1
        await mended.close()

    with_broker(test)
    (error,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert error.startswith("state-0 cannot be loaded, its log in /data/state-0 is damaged: ")
    assert "`ottla dump-log --check`" in error


def test_a_shard_that_is_lost_is_led_by_nobody_and_missed_in_lists() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        number = runtime.partition_of("a")
        assert runtime.leads(number)
        broker.machine.disk.fail(Fault("write_at", f"/data/state-{number}", count=1))
        with pytest.raises(KafkaError):
            await runtime.write("a", lambda s: s.add("a"))
        assert not runtime.leads(number)
        assert runtime.leads((number + 1) % 3)
        with pytest.raises(KafkaError) as raised:
            await runtime.read_all(lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await runtime.close()

    with_broker(test)


def test_loading_that_fails_for_another_reason_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stumbling(Counters):
        stumbles = 2

        def loaded(self) -> None:
            if Stumbling.stumbles:
                Stumbling.stumbles -= 1
                raise ValueError("a bug of ours")

    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        await runtime.write("a", lambda s: s.add("a"))
        await runtime.close()
        again: Runtime[Stumbling] = Runtime(Stumbling, VirtualClock(broker.loop), TIMEOUT_MS)
        again.partition_count = 1
        again.become_leader(broker.machine.broker.replicas.partition("state", 0).leader)
        await asyncio.sleep(5)
        assert await again.read("a", lambda s: s.counts) == {"a": 1}
        assert caplog.text.count("loading state-0 failed; trying again") == 1
        await again.close()

    with_broker(test)


def test_a_transaction_that_ends_is_told_to_the_shard_of_the_partition() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        number = runtime.partition_of("a")
        partition = broker.machine.broker.replicas.partition("state", number)
        guard = partition.leader.begin_verification(*PRODUCER, -1, supports_epoch_bump=True)
        await runtime.write_transactional("a", PRODUCER, lambda s: s.add("a"), guard=guard)
        runtime.transaction_ended((number + 1) % 3, PRODUCER.producer_id, is_commit=True)
        assert await runtime.read("a", lambda s: s.counts) == {}
        runtime.transaction_ended(number, PRODUCER.producer_id, is_commit=True)
        assert await runtime.read("a", lambda s: s.counts) == {"a": 1}
        runtime.resign(number)
        runtime.transaction_ended(number, PRODUCER.producer_id, is_commit=True)

    with_broker(test)
